"""`nerfmac tune`'s choice: the quickest variant of those that are right."""

import io
import re

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from nerfmac.backend import (
    choose_device,
    cpu_kernel,
    device,
    kernel,
    runs_kernel,
    using,
    variant,
    variants,
)
from nerfmac.backend.variants import VARIANTS, choose_first, is_tuned
from nerfmac.common.checks import InputError
from nerfmac.config.presets import PRESETS
from nerfmac.measure import tuning as choosing
from nerfmac.measure.selftest import Case
from nerfmac.measure.tuning import trials, tune

TINY = PRESETS["tiny"]
FOUR, TWO, EIGHT = VARIANTS["march_count"].on_cpu


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    choose_device("cpu")
    monkeypatch.delenv("NERFMAC_VARIANTS", raising=False)
    file = tmp_path / "variants.json"
    monkeypatch.setattr(variants, "path", lambda: file)
    variants._stored.cache_clear()
    yield
    variants._stored.cache_clear()


SLOW = (1.0, 3.0, 1.1)


@pytest.fixture
def took(monkeypatch):
    """Lets the variants that are timed take the seconds given, by name, in three rounds.

    Or, as a list, in as many rounds as there are.
    """

    def set_times(**seconds):
        def measure(timers, **_how):
            assert len(timers) == len(seconds)
            lists = [each if isinstance(each, list) else [each] * 3 for each in seconds.values()]
            slow = SLOW * (len(lists[0]) // 3)
            return [[a * b for a, b in zip(each, slow, strict=True)] for each in lists]

        monkeypatch.setattr(choosing, "measure_interleaved", measure)

    return set_times


@pytest.fixture
def trial(monkeypatch):
    """Has one trial, of marching, whose results `compute` gives for the variant's name."""

    def set_trial(compute):
        case = Case("march", "trial", lambda: compute(variant("march_count")), 4)
        monkeypatch.setattr(choosing, "trials", lambda *_: iter([("march_count", case)]))

    return set_trial


def right(_way):
    return {"counts": mx.array([3.0, 4.0])}


def test_the_quickest_is_kept_for_what_follows(trial, took):
    trial(right)
    took(four=0.5, two=0.4, eight=0.2)
    (tuned,) = tune(TINY)
    assert tuned.chosen == variant("march_count") == EIGHT
    assert [each.ratio for each in tuned.tried] == [1.0, pytest.approx(0.8), pytest.approx(0.4)]
    assert tuned.tried[1].timing.median == pytest.approx(440.0)
    assert is_tuned()


def test_what_is_hardly_quicker_is_not_worth_a_change(trial, took):
    trial(right)
    took(four=0.5, two=0.495, eight=0.499)
    assert tune(TINY)[0].chosen == variant("march_count") == FOUR


# Nine rounds of a machine that others use: quicker by a tenth in the median, and by chance.
NOISY = [0.7, 1.2, 0.9, 1.3, 0.8, 1.1, 0.85, 0.9, 1.25]


def test_what_is_quicker_by_chance_is_not_kept(trial, took):
    trial(right)
    took(four=[1.0] * 9, two=NOISY, eight=[1.01] * 9)
    (tuned,) = tune(TINY)
    two = tuned.tried[1]
    assert two.ratio == 0.9
    # A quarter of the rounds are below 0.85, and one above 1.2; 3.14 * 0.35 / 3 is 0.366.
    assert two.at_most == pytest.approx(1.266, abs=1e-3)
    assert tuned.chosen == variant("march_count") == FOUR
    assert tuned.to_json()["tried"]["two"]["ratio_at_most"] == two.at_most


def test_what_is_steadily_quicker_is_kept_before_what_may_be(trial, took):
    trial(right)
    took(four=[1.0] * 9, two=NOISY, eight=[0.95, 0.96, 0.94] * 3)
    (tuned,) = tune(TINY)
    assert tuned.chosen == EIGHT
    assert tuned.tried[2].ratio > tuned.tried[1].ratio


def test_more_rounds_of_the_same_noise_make_it_certain(trial, took):
    trial(right)
    took(four=[1.0] * 360, two=NOISY * 40, eight=[1.0] * 360)
    assert tune(TINY)[0].chosen == TWO


def test_what_differs_from_the_first_is_not_kept_however_quick(trial, took):
    trial(lambda way: {"counts": mx.array([3.0, 4.0 + 1e-3 * (way == EIGHT)])})
    took(four=0.5, two=0.4)
    (tuned,) = tune(TINY)
    assert tuned.chosen == TWO
    assert tuned.tried[2].fault == "differs: counts"
    assert tuned.tried[2].error == pytest.approx(2e-4, rel=1e-2)
    assert tuned.tried[2].timing is None


def test_what_does_not_run_is_not_kept(trial, took):
    def compute(way):
        if way == TWO:
            raise RuntimeError("the compiler refuses it")
        return right(way)

    trial(compute)
    took(four=0.5, eight=0.4)
    (tuned,) = tune(TINY)
    assert tuned.chosen == EIGHT
    assert tuned.tried[1].fault == "RuntimeError: the compiler refuses it"


def test_where_the_first_does_not_run_there_is_nothing_to_compare_with(trial, took):
    def compute(way):
        if way == FOUR:
            raise RuntimeError("no")
        return right(way)

    trial(compute)
    took()
    (tuned,) = tune(TINY)
    assert tuned.chosen == FOUR
    assert all(each.fault and each.error is each.timing is None for each in tuned.tried)


def test_the_trials_are_like_training_and_their_variants_agree_on_this_cpu():
    found = {trial.variants: trial.case for trial in trials(TINY, 1.0)}
    assert set(found) == set(VARIANTS)
    counts = found["march_count"].run()["counts"]
    assert counts.shape == (TINY.march.max_samples // 8,)
    assert 3 < counts.mean().item() < 40
    some = (found["hash_encode_gradient"].run()["d table"] != 0).mean().item()
    assert 0.05 < some < 0.9
    for name, case in found.items():
        want = case.run()
        for way in VARIANTS[name].all:
            got = choosing.in_variant(case, name, way).run()
            assert all(each.passed for each in choosing.agreement(case, got, want)), (name, way)


def test_no_trial_has_mlx_compile_a_kernel_of_its_own_on_cuda(monkeypatch):
    graphs, evaluate = io.StringIO(), mx.eval

    def noted(*arrays):
        mx.export_to_dot(graphs, *tree_flatten(arrays, destination={}).values())
        evaluate(*arrays)

    monkeypatch.setattr(mx, "eval", noted)
    for trial in trials(TINY, 1.0):
        mx.eval(trial.case.run())
    primitives = set(re.findall(r'label ?="(\w+)"', graphs.getvalue()))
    assert {"RandomBits", "Split"} <= primitives
    assert not primitives & {"Gather", "GatherAxis", "Scatter", "ScatterAxis", "Compiled"}


def test_all_kernels_are_compiled_ahead_together_those_of_the_inputs_too(took, monkeypatch):
    assert runs_kernel("march")  # a kernel of its own has found that out
    together, alone = [], []
    of_together, of_one = kernel.compile_together, cpu_kernel.shared_library

    def noted_together(libraries):
        together.append({library.path() for library in libraries})
        of_together(libraries)

    def noted_alone(library):
        alone.append(library.path())
        return of_one(library)

    monkeypatch.setattr(kernel, "compile_together", noted_together)
    monkeypatch.setattr(cpu_kernel, "shared_library", noted_alone)
    cpu_kernel._function.cache_clear()
    took(four=0.5, two=0.4, eight=0.3)
    tune(TINY)
    (ahead_of_all,) = together
    stems = {path.name.rpartition("-")[0] for path in alone}
    assert {"nerfmac_occupancy_splat", "nerfmac_march_write", "nerfmac_march_count"} <= stems
    assert set(alone) <= ahead_of_all


def test_before_a_first_training_only_a_gpu_is_tuned_and_only_once(trial, took, monkeypatch):
    trial(right)
    took(one=0.5, two=0.3, four=0.4)
    choose_first(TINY, 1.0)
    assert not is_tuned()
    for module in (choosing, variants):
        monkeypatch.setattr(module, "why_reference", lambda: None)
    monkeypatch.setattr(choosing, "runs_kernel", lambda _: True)
    with device.pretended("cuda"), monkeypatch.context() as pretended:
        for module in (choosing, variants):
            pretended.setattr(module, "device_name", lambda: "a GPU")
        pretended.setattr(choosing, "compile_for", lambda _: None)
        with using(**{name: variants.here[0] for name, variants in VARIANTS.items()}):
            choose_first(TINY, 1.0)  # nothing is left to choose
        assert not is_tuned()
        choose_first(TINY, 1.0)
        assert variant("march_count") == "two"
        pretended.setattr(choosing, "tune", None)
        choose_first(TINY, 1.0)


def test_nothing_is_tuned_where_no_kernels_run(monkeypatch):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", "1")
    with pytest.raises(InputError, match="NERFMAC_DISABLE_KERNELS=1"):
        tune(TINY)
