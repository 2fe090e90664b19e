"""A step's parts are all of the step, each kernel timed by its recorded launches."""

import pytest

from nerfmac import Bounds, Run, choose_device, load_scene
from nerfmac.app.measure import parts as module
from nerfmac.app.measure.launches import NEVER_EVALUATED, recorded_launches
from nerfmac.app.measure.parts import parts, time_step
from nerfmac.app.measure.timing import Timing
from nerfmac.app.run import Training
from nerfmac.sampling.occupancy import march_geometry
from tests.scene_factory import CONFIG, initial, write_scene

LAUNCH = Timing(0.01, 0.01, 0.01, 5)


def timing(median):
    return Timing(median, median, median, 5)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    choose_device("cpu")
    scene = load_scene(write_scene(tmp_path_factory.mktemp("scene")))
    training = Training(Run.begin(scene, CONFIG))
    for _ in training.prepare():
        pass
    return training


@pytest.fixture(scope="module")
def whole(training):
    return time_step(training, 0.0)


@pytest.fixture(scope="module")
def measured(training, whole):
    return parts(training.trainer, whole, LAUNCH, 0.0)


def test_the_parts_cover_every_kernel_that_a_step_launches(training, whole, measured):
    named = [part.name for part in measured]
    assert len(named) == len(set(named))
    interval = CONFIG.occupancy.interval_at(whole.state.step)
    kernels = set(named) - {"everything else", f"occupancy update, 1/{interval}", "average, 1/8"}
    assert len(kernels) == 24
    # Kernels of the occupancy update, and kernels with unused results.
    others = {f"occupancy_{each}" for each in ("count", "points", "splat", "refresh", "pack")}
    others |= {"march_visible", "visibility_ends", "moving_average", *NEVER_EVALUATED}
    assert not kernels & others
    recorded = recorded_launches(training.trainer, initial(training.trainer))
    assert kernels | others == {each.name for some in recorded for each in some}


def test_all_parts_together_are_the_step(whole, measured):
    assert sum(part.timing.median for part in measured) == pytest.approx(whole.step.median)


def test_training_is_timed_where_it_stands_and_goes_no_further(training, whole):
    assert training.run.state.step == whole.state.step, (
        "later rounds would time other rays and samples"
    )
    assert whole.step.calls == 5
    assert whole.state.step == module.SETTLING * CONFIG.occupancy.interval_at(0)
    samples_per_ray = whole.samples_per_second / whole.rays_per_second
    assert (
        0
        < samples_per_ray
        <= march_geometry(
            training.run.config.march, CONFIG.occupancy, Bounds(training.run.scene.extent)
        ).most_intervals
    )
