"""A step's parts are all of the step, each kernel timed by its recorded launches."""

import json

import pytest

from nerfmac import Bounds, Run, choose_device, load_scene
from nerfmac.app.measure import parts as module
from nerfmac.app.measure.launches import NEVER_EVALUATED, Work, recorded_launches
from nerfmac.app.measure.parts import Part, kernel_parts, parts, stages, time_step
from nerfmac.app.measure.timing import Ceilings, Timing
from nerfmac.app.run import Training
from nerfmac.sampling.occupancy import march_geometry
from tests.scene_factory import CONFIG, initial, write_scene

MOST = Ceilings(1e9, 1e12, "made up")
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


def test_every_part_but_the_rest_is_counted_and_survives_json(measured):
    for part in measured:
        values = json.loads(json.dumps(part.to_json(MOST)))
        if part.name == "everything else":
            assert part.work == Work()
        else:
            assert 0.0 < values["limit_cached_ms"] <= values["limit_uncached_ms"]


def test_parts_name_their_stage_their_types_and_what_runs_them(measured):
    by_name = {part.name: part for part in measured}
    assert by_name["adam"].backend == "cpu"
    assert by_name["adam"].dtypes == ("float32",)
    assert by_name["packing_starts"].dtypes == ("int32",)
    assert by_name["everything else"].backend == "mlx"
    by_stage = stages(measured)
    assert [part.name for part in by_stage["optimizer"]] == ["loss_scale", "adam", "average, 1/8"]
    assert sum(map(len, by_stage.values())) == len(measured)
    assert set(by_stage) == {
        *("rays", "samples", "encoding", "networks", "compositing", "loss", "optimizer"),
        *("everything else", "occupancy update"),
    }


def test_all_parts_together_are_the_step(whole, measured):
    assert sum(part.timing.median for part in measured) == pytest.approx(whole.step.median)


def test_a_rate_is_work_over_time_and_a_fraction_that_of_the_scarcer_limit():
    part = Part("a", timing(2.0), Work(4 * 10**6, 8 * 10**6, 10**9))
    assert part.per_second(part.work.cached) == pytest.approx(2e9)
    assert part.per_second(part.work.operations) == pytest.approx(5e11)
    most = Ceilings(8e9, 2e12, "made up")
    assert part.fraction(most, cached=True) == pytest.approx(0.25)
    assert part.fraction(most, cached=False) == pytest.approx(0.5)
    lost = Part("b", timing(0.0), Work(1, 1, 1))
    assert lost.per_second(1) is lost.fraction(most, cached=True) is None


def test_a_kernel_s_time_is_that_of_all_its_launches_less_empty_ones(training, monkeypatch):
    (step,) = recorded_launches(training.trainer, initial(training.trainer))[-2:-1]
    monkeypatch.setattr(module, "measure", lambda again, **_: timing(1.0 + len(again())))
    found = {part.name: part for part in kernel_parts(step, LAUNCH, 0.0)}
    names = [each.name for each in step if each.name not in NEVER_EVALUATED]
    assert list(found) == list(dict.fromkeys(names))
    assert names.count("adam") == 3  # one for each array of parameters
    for name, part in found.items():
        assert part.timing.median == pytest.approx(1.0 + 0.99 * names.count(name))


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


def test_what_is_subtracted_from_a_timing_leaves_its_quartiles_in_order():
    kernel, launch = Timing(0.11, 0.10, 0.12, 5), Timing(0.05, 0.03, 0.09, 5)
    median, low, high, calls = kernel.less(launch)
    assert (low, median, high) == pytest.approx((0.05, 0.06, 0.07))
    assert calls == 5
    assert kernel.less(kernel.times(2.0)) == (0.0, 0.0, 0.0, 5)
