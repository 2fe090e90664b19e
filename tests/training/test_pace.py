"""The settings of a run with the preset `auto` follow from the speed of the device."""

import pytest
from slow_gpu import slow_gpu, step_seconds

from nerfmac.app.run.start import beginning, drained
from nerfmac.config import AUTO, PRESETS, override
from nerfmac.training.goal import Goal
from nerfmac.training.resolve import for_pace
from tests.conftest import daily_but

pytestmark = pytest.mark.usefixtures("on_the_cpu")
UNKNOWN = override(PRESETS["base"], preset=AUTO)


def sizes(config):
    return config.march.max_samples, config.grid.log2_entries


def test_more_time_never_makes_a_step_or_a_table_smaller():
    found = [sizes(for_pace(UNKNOWN, steps)) for steps in (1, 100, 399, 400, 900, 1599, 1600, 1e6)]
    assert found == sorted(found)
    assert found[0] < found[3] < found[-1] == sizes(PRESETS["base"])


@pytest.mark.parametrize("steps", [100, 1000, 1e5])
def test_the_choice_is_the_preset_base_and_keeps_what_the_user_set(steps):
    assert for_pace(PRESETS["base"], steps) is PRESETS["base"]
    for group, changes in {"march": {"max_samples": 2**12}, "optimizer": {"average": 0.5}}.items():
        chosen = for_pace(override(UNKNOWN, **{group: changes}, seed=3), steps)
        assert chosen.preset == "base"
        assert chosen.seed == 3
        assert {name: getattr(getattr(chosen, group), name) for name in changes} == changes


# Few cells and levels: the stand-in charges a step by its samples and its table only.
SMALL = override(UNKNOWN, occupancy={"resolution": 16}, grid={"levels": 4, "features": 4})


CHOSEN = {
    ("M1", 15): (2**14, 16),
    ("M1", 60): (2**15, 17),
    ("M1", 180): (2**17, 19),
    ("M2 Pro", 7): (2**14, 16),
    ("M2 Pro", 15): (2**15, 17),
    ("M4 Max", 60): (2**17, 19),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", daily_but(CHOSEN, ("M1", 15), ("M4 Max", 60)))
def test_the_speed_is_measured_and_told_and_decides(scene, caplog, case):
    gpu, seconds = case
    caplog.set_level("INFO", "nerfmac")
    with slow_gpu(gpu):
        run = drained(beginning(scene, SMALL, Goal(seconds=seconds), progress=False))
    assert sizes(run.config) == CHOSEN[case]
    assert run.config.preset == "base"
    assert run.state.step == 0
    steps = seconds / step_seconds(PRESETS["base"], gpu)
    (line,) = [line for line in caplog.messages if "override with --preset base" in line]
    assert float(line.split()[4]) == pytest.approx(steps, rel=0.02)
