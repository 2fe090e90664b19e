"""The executor finds every error; kernels of the notebook and the probes follow the rules."""

import re
from pathlib import Path

import mlx.core as mx
import nbformat
import numpy as np
import probe_metal
import pytest
from probe_metal import PROBES, KernelProbe

from nerfmac.app.measure.selftest import compare
from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.backend.metal_text import exported, on_metal, recorded
from tests.metal import execute
from tests.metal.execute import ExecutionError, Executor
from tests.metal.judge import judge
from tests.metal.trial_pairs import PAIRS
from tests.metal.trials import COUNT, RIGHT, Trial


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernel_gives_the_right_result(executor, name):
    trial, expected = RIGHT[name]
    np.testing.assert_array_equal(trial(executor), expected)


@pytest.mark.parametrize("function", ["simd_sum", "simd_prefix_inclusive_sum"])
def test_values_of_a_simdgroup_are_added_in_the_order_that_is_asked_for(executor, function):
    given = np.random.default_rng(2).normal(size=64).astype(np.float32) ** 9
    got = {}
    for order in ("lanes", "tree"):
        out = Trial(f"out[i] = {function}(in[i]);", given=given)(
            Executor(executor.folder, order=order)
        )
        got[order] = out[31], out[63]
    halves = given.reshape(2, 32)
    assert got["lanes"] == tuple(np.cumsum(halves, axis=1)[:, -1])
    while halves.shape[1] > 1:
        halves = halves[:, ::2] + halves[:, 1::2]
    assert got["tree"] == tuple(halves[:, 0])
    assert got["tree"] != got["lanes"]


def test_matrices_of_halves_are_multiplied_and_summed_in_float(executor):
    a, b = np.random.default_rng(1).normal(size=(2, 8, 16)).astype(np.float16)
    trial = Trial(
        "simdgroup_half8x8 a, b;\n"
        "simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);\n"
        "for (uint k = 0; k < 16; k += 8) {\n"
        "simdgroup_load(a, in + k, 16);\n"
        "simdgroup_load(b, in + 128 + k, 16, ulong2(0), true);\n"
        "simdgroup_multiply_accumulate(sum, a, b, sum);\n"
        "}\n"
        "simdgroup_store(sum, out, 8);",
        given=np.concatenate([a, b]).ravel(),
        grid=32,
        group=32,
    )
    want = a.astype(np.float32) @ b.T.astype(np.float32)
    np.testing.assert_allclose(trial(executor).reshape(8, 8), want, rtol=1e-5)


# In units of the result's last place, as Metal's specification has them: at most, and more than.
@pytest.mark.parametrize(
    ("function", "most", "least"),
    [("exp", 3 + 2 * 6, 2), ("precise::exp", 4, 3), ("fast::log", 3, 1), ("sqrt", 2, 1)],
)
def test_functions_are_as_far_off_as_metal_allows(executor, function, most, least):
    given = np.linspace(2.1, 6.4, 64, dtype=np.float32)
    got = Trial(f"out[i] = {function}(in[i]);", given=given)(executor)
    want = getattr(np, function.rpartition(":")[2])(given.astype(np.float64))
    off = (got - want) / np.spacing(want.astype(np.float32))
    assert abs(off).max() <= most + 0.5
    assert off.min() < -least
    assert off.max() > least


@pytest.fixture(scope="session")
def compiled(executor):
    """The executor with every trial compiled."""
    trials = [trial for pair in PAIRS.values() for trial in (pair.wrong, pair.right)]
    executor.compile(trial.launch().text for trial in trials)
    return executor


@pytest.mark.parametrize("name", PAIRS)
def test_wrong_kernel_is_caught_and_the_right_one_beside_it_passes(compiled, name):
    with pytest.raises(ExecutionError, match=r"^custom_kernel_trial_\w+: ") as caught:
        PAIRS[name].wrong(compiled)
    assert re.search(PAIRS[name].words, str(caught.value)), str(caught.value)
    PAIRS[name].right(compiled)


def test_output_that_no_thread_writes_is_counted_and_no_number(executor):
    trial = Trial("if (i != 7 && i != 9) out[i] = in[i];")
    out = trial(executor)
    assert np.isnan(out[[7, 9]]).all()
    assert np.isfinite(np.delete(out, [7, 9])).all()
    assert executor.unwritten == {"out": 2}
    trial.zeroed = True
    assert (trial(executor) == np.where(np.isin(COUNT, [7, 9]), 0, COUNT)).all()
    assert executor.unwritten == {"out": 0}


def test_kernel_that_never_ends_is_caught(executor, monkeypatch):
    monkeypatch.setattr(execute, "_SECONDS", 1)
    with pytest.raises(ExecutionError, match="runs on for 1 s"):
        Trial("for (uint pass = 0; in[0] < 1; ++pass) out[i] = pass;")(executor)


NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "4_your_own_operation.ipynb"
CELLS = ("setup", "reference", "kernel", "operation", "compare")


@pytest.fixture(scope="module")
def cases():
    """Return the cases of the notebook, with sizes down to one; keys are the defined names."""
    choose_device("cpu")
    sources = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
    names = {}
    with kernels_disabled():  # or the setup would compile what launches on a CPU
        for cell in CELLS:
            exec(sources[cell].rpartition("compare_all(")[0] or sources[cell], names)
    return list(names["cases"](names["by_kernel"]))


def test_they_are_judged(cases):
    with recorded() as launches:
        for case in cases:
            case.run()
    assert len(launches) > 4
    for launch in launches.values():
        assert [str(complaint) for complaint in judge(launch.text)] == []


def test_they_are_executed_and_equal_their_reference(cases, executor):
    for case in cases[:3]:
        with on_metal(executor):
            outcomes = compare(case)
        assert [(each.array, each.passed) for each in outcomes] == [
            ("result 0", True),
            ("d planes", True),
        ]


NUMBERS = mx.arange(64, dtype=mx.float32)
KERNELS = [probe for probe in PROBES if isinstance(probe, KernelProbe)]


def launch(probe):
    kernel = mx.fast.metal_kernel(**probe.made)
    call = {**probe_metal.LAUNCH, "output_dtypes": [mx.float32], "template": []}
    return exported(kernel, {**call, "inputs": [NUMBERS]})


@pytest.mark.parametrize("probe", KERNELS, ids=lambda probe: probe.name)
def test_a_probes_kernel_is_judged_and_executed(probe, executor):
    choose_device("cpu")
    launched = launch(probe)
    assert [str(complaint) for complaint in judge(launched.text)] == []
    (out,) = executor(launched, [NUMBERS])
    assert out.sum().item() == probe.want
