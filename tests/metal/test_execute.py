"""The executor finds every error; kernels of the notebook and the probes follow the rules."""

import re
from pathlib import Path

import nbformat
import pytest

from nerfmac.app.measure.selftest import compare
from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.backend.metal_text import on_metal, recorded
from tests.metal.execute import ExecutionError
from tests.metal.judge import judge
from tests.metal.trial_pairs import PAIRS


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
