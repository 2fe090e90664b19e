"""A step's parts are all of the step, each kernel timed by its recorded launches."""

import pytest

from nerfmac import Run, choose_device, load_scene
from nerfmac.app.measure.launches import NEVER_EVALUATED, recorded_launches
from nerfmac.app.measure.profiling import step_parts, time_step
from nerfmac.app.measure.timing import Ceilings, Timing
from nerfmac.app.run import Training
from tests.scene_factory import CONFIG, initial, write_scene

LAUNCH = Timing(0.01, 0.01, 0.01, 5)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    choose_device("cpu")
    scene = load_scene(write_scene(tmp_path_factory.mktemp("scene")))
    training = Training(Run.begin(scene, CONFIG))
    for _ in training.prepare():
        pass
    return training


@pytest.fixture(scope="module")
def step(training):
    state, step = time_step(training, 0.0)
    most = Ceilings(1e9, 1e9, "")
    step["parts"] = step_parts(training.trainer, state, step["ms"], LAUNCH, most, 0.0)
    return {**step, "after": state.step}


def test_the_parts_cover_every_kernel_that_a_step_launches(training, step):
    named = [part["part"] for part in step["parts"]]
    assert len(named) == len(set(named))
    interval = CONFIG.occupancy.interval_at(step["after"])
    kernels = set(named) - {"everything else", f"occupancy update, 1/{interval}", "average, 1/8"}
    assert len(kernels) == 24
    # Kernels of the occupancy update, and kernels with unused results.
    others = {f"occupancy_{each}" for each in ("count", "points", "splat", "refresh", "pack")}
    others |= {"march_visible", "visibility_ends", "moving_average", *NEVER_EVALUATED}
    assert not kernels & others
    recorded = recorded_launches(training.trainer, initial(training.trainer))
    assert kernels | others == {each.name for some in recorded for each in some}


def test_all_parts_together_are_the_step(step):
    assert sum(part["ms"].median for part in step["parts"]) == pytest.approx(step["ms"].median)
