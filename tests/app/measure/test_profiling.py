"""A step's parts are all of the step, each kernel timed by its recorded launches."""

from nerfmac import Run, choose_device, load_scene
from nerfmac.app.measure.launches import NEVER_EVALUATED, recorded_launches
from nerfmac.app.measure.profiling import step_parts, time_step
from nerfmac.app.measure.timing import Ceilings, Timing
from nerfmac.app.run import Training
from tests.scene_factory import CONFIG, initial, write_scene


def test_the_parts_cover_every_kernel_that_a_step_launches(tmp_path):
    choose_device("cpu")
    training = Training(Run.begin(load_scene(write_scene(tmp_path)), CONFIG))
    for _ in training.prepare():
        pass
    state, step = time_step(training, 0.0)
    launch, most = Timing(0.01, 0.01, 0.01, 5), Ceilings(1e9, 1e9, "")
    parts = step_parts(training.trainer, state, step["ms"], launch, most, 0.0)
    named = [part["part"] for part in parts]
    assert len(named) == len(set(named))
    interval = CONFIG.occupancy.interval_at(state.step)
    kernels = set(named) - {"everything else", f"occupancy update, 1/{interval}", "average, 1/8"}
    assert len(kernels) == 24
    # Kernels of the occupancy update, and kernels with unused results.
    others = {f"occupancy_{each}" for each in ("count", "points", "splat", "refresh", "pack")}
    others |= {"march_visible", "visibility_ends", "moving_average", *NEVER_EVALUATED}
    assert not kernels & others
    recorded = recorded_launches(training.trainer, initial(training.trainer))
    assert kernels | others == {each.name for some in recorded for each in some}
