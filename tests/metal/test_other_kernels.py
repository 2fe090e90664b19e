"""The kernels of the notebook and of the probes for a hosted Mac follow the rules of Metal too."""

from pathlib import Path

import mlx.core as mx
import nbformat
import probe_metal
import pytest
from probe_metal import PROBES, KernelProbe

from nerfmac.app.measure.selftest import compare
from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.backend.metal_text import exported, on_metal, recorded
from tests.metal.judge import judge

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
