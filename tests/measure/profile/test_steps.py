"""A step's parts are all of the step, and each step without kernels launches just the others."""

import json
import re
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.measure.bench.work import Work
from nerfmac.measure.ceilings import Ceilings
from nerfmac.measure.launches import launches, replayed
from nerfmac.measure.profile import steps
from nerfmac.measure.profile.parts import Part, difference_percent, parts, stages, total
from nerfmac.measure.profile.steps import WholeStep, time_interleaved
from nerfmac.measure.timing import Timing, measure_interleaved
from nerfmac.ops.composite import composite
from nerfmac.run import Run
from nerfmac.sampling.occupancy import march_geometry
from nerfmac.scenes import load_scene
from nerfmac.training.steps_under_way import Queue
from tests.scene_factory import CONFIG, write_scene

MOST = Ceilings(1e9, 1e12, "made up")
LAUNCH = Timing(0.01, 0.01, 0.01, 5)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    choose_device("cpu")
    return load_scene(write_scene(tmp_path_factory.mktemp("scene")))


@pytest.fixture(scope="module")
def trainer(scene):
    return Run.begin(scene, CONFIG).trainer


@pytest.fixture(scope="module")
def run(scene):
    return Run.begin(scene, CONFIG)


@pytest.fixture(scope="module")
def interleaved(run):
    return time_interleaved(run, 0.0)


@pytest.fixture(scope="module")
def measured(trainer, interleaved):
    return list(parts(trainer, interleaved, LAUNCH, 0.0))


def test_the_parts_cover_every_kernel_that_a_step_launches(trainer, interleaved, measured):
    named = [part.name for part in measured]
    assert len(named) == len(set(named))
    interval = CONFIG.occupancy.interval_at(interleaved.whole.state.step)
    update, report = (f"{each}, 1/{interval}" for each in ("occupancy update", "report"))
    kernels = set(named) - {"everything else", update, report, "average, 1/8"}
    assert len(kernels) == 15
    # The occupancy update's own, and those whose results nobody asks for.
    others = {f"occupancy_{each}" for each in ("choose", "splat", "pack")}
    others |= {"march_lit", *steps.NEVER_EVALUATED}
    assert not kernels & others
    state = trainer.init()
    launched = {each.name for some in steps.recorded_launches(trainer, state) for each in some}
    assert kernels | others == launched


def test_every_part_is_counted_and_survives_json(measured):
    for part in measured:
        # The update's shapes are not counted during the warm-up, and a report's not at all.
        if part.stage in ("occupancy update", "report"):
            assert part.work == Work()
            continue
        values = json.loads(json.dumps(part.to_json(MOST)))
        assert 0.0 < values["limit_cached_ms"] <= values["limit_uncached_ms"]


def test_each_step_lacks_one_kernel_more(scene, monkeypatch, tmp_path):
    launched = []

    numbers = []

    def launched_by(state):
        numbers.append(state.step)
        mx.export_to_dot(str(tmp_path / "graph"), state.arrays())
        found = re.findall(r'"nerfmac_(\w+)"', (tmp_path / "graph").read_text())
        launched.append(set(found) - set(steps.NEVER_EVALUATED))

    def measured_once(timers, *, seconds, rounds):
        assert (seconds, rounds) == (7.0, 3)
        timers[0]()
        with monkeypatch.context() as during:
            during.setattr(Queue, "add", lambda _, state: launched_by(state))
            for timer in timers[1:]:
                timer()
        return [[1.0 + number] for number, _ in enumerate(timers)]

    monkeypatch.setattr(steps, "measure_interleaved", measured_once)
    run = Run.begin(scene, CONFIG)
    run.state = replace(run.state, step=CONFIG.occupancy.warmup_steps)
    interleaved = time_interleaved(run, 7.0, rounds=3)
    names, interval = list(interleaved.launched), CONFIG.occupancy.interval
    assert interleaved.whole.step.median == 1e3
    assert interleaved.without == [[2.0 + number] for number in range(len(names) + 1)]
    assert len(launched) == interval * len(interleaved.without)
    for gone in range(len(names)):
        for each in launched[gone * interval : (gone + 1) * interval]:
            assert each == set(names[gone:])
    assert launched[-1] == set()
    each = numbers[:interval]  # of rays of its own
    assert len(set(each)) == interval
    assert numbers == each * len(interleaved.without)


def test_every_kernel_has_a_stage_a_type_and_what_runs_it(measured):
    by_name = {part.name: part for part in measured}
    encode = by_name["hash_encode_forward"]
    assert (encode.stage, encode.backend, encode.dtypes) == ("encoding", "cpu", ("float32",))
    assert by_name["packing_starts"].dtypes == ("int32",)
    assert by_name["everything else"].backend == "mlx"
    by_stage = stages(measured)
    assert [part.name for part in by_stage["optimiser"]] == ["adam", "average, 1/8"]
    assert sum(map(len, by_stage.values())) == len(measured)
    assert set(by_stage) == {
        *("rays", "samples", "encoding", "networks", "compositing", "optimiser"),
        *("everything else", "occupancy update", "report"),
    }


def test_a_rate_is_that_of_the_kernel_alone():
    def timing(median):
        return Timing(median, median, median, 5)

    part = Part("a", timing(9.0), Work(4 * 10**6, 8 * 10**6, 10**9), alone=timing(2.0))
    assert part.bandwidth == pytest.approx(2e9)
    assert part.rate == pytest.approx(5e11)
    most = Ceilings(8e9, 2e12, "made up")
    assert part.fraction(most, cached=True) == pytest.approx(0.25)
    assert part.fraction(most, cached=False) == pytest.approx(0.5)
    lost = Part("b", timing(9.0), Work(1, 1, 1), alone=timing(0.0))
    assert lost.bandwidth is lost.rate is lost.fraction(most, cached=True) is None


def test_a_kernels_part_is_what_the_step_gets_shorter_by(trainer, interleaved):
    count = len(interleaved.launched)
    without = [[100.0 - 3 * n, 100.0 - 2 * n, 100.0 - n] for n in range(count + 1)]
    made_up = interleaved._replace(without=without)
    *done, everything_else = list(parts(trainer, made_up, LAUNCH, 0.0))[:-3]
    assert [part.name for part in done] == list(interleaved.launched)
    assert [part.timing.median for part in done] == pytest.approx([2e3] * count)
    assert everything_else.name == "everything else"
    assert everything_else.timing.median == pytest.approx(1e3 * (100 - 2 * count))
    assert all(part.alone for part in done)


def test_a_report_is_the_reading_of_what_a_step_measured(trainer, monkeypatch):
    state = trainer.init()
    clock, given = [0.0], []

    def read_in_half_a_second(measured, of):
        given.append((measured.shape, of is state))
        clock[0] += 0.5

    monkeypatch.setattr(steps, "read", read_in_half_a_second)
    monkeypatch.setattr(steps.time, "perf_counter", lambda: clock[0])
    timing = steps.time_report(trainer, state, 0.0)
    assert (timing.median, timing.calls) == (500.0, 5)
    assert set(given) == {((4,), True)}


def test_interleaved_timing_goes_on_until_the_time_is_over(monkeypatch):
    clock, calls = [0.0], []

    def lasting(seconds):
        def tell():
            calls.append(seconds)
            clock[0] += 16 * seconds
            return seconds

        return tell

    monkeypatch.setattr("nerfmac.measure.timing.time.perf_counter", lambda: clock[0])
    rounds = measure_interleaved([lasting(0.5), lasting(0.25)], seconds=80.0)
    assert rounds == [[0.5] * 7, [0.25] * 7]
    assert calls == [0.5, 0.25] * 8  # one to warm up
    assert measure_interleaved([lasting(0.5)], seconds=0.0) == [[0.5] * 5]
    assert measure_interleaved([lasting(0.5)], seconds=80.0, rounds=2) == [[0.5] * 2]


def test_a_replayed_computation_gives_what_the_launches_gave_before():
    def compute(density):
        samples, start = mx.arange(64.0).reshape(-1, 16), mx.array([0, 4], mx.int32)
        widths = mx.full((4,), 0.1)
        return composite(density, samples[:, :3], samples[:, 1], widths, start).colour

    before = launches(lambda: compute(mx.ones(4)))
    want, other = np.array(compute(mx.ones(4))), mx.full((4,), 2.0)
    assert [each.name for each in before] == ["composite_forward"]
    with replayed(before, ["composite_forward"]):
        got = compute(other)
    assert (np.array(got) == want).all()
    assert (np.array(compute(other)) != want).any()


def test_the_sum_is_set_against_the_step():
    def timing(median):
        return Timing(median, median, median, 5)

    some = [Part("a", timing(3.0), Work(2, 2, 2)), Part("b", timing(6.0), Work(1, 1, 1))]
    whole = WholeStep(timing(10.0), 1.0, 1.0, None)
    assert total(some) == 9.0
    assert difference_percent(some, whole) == pytest.approx(-10.0)
    assert Part("c", timing(1.0), Work(10**6, 3 * 10**6, 10**6)).limit(MOST, cached=False) == 3.0


def test_training_is_timed_where_it_stands_and_goes_no_further(scene, run, interleaved):
    whole = interleaved.whole
    assert run.state.step == whole.state.step, "later rounds would time other rays and samples"
    assert whole.step.calls == 5
    assert all(len(spent) == 5 for spent in interleaved.without)
    assert whole.state.step == steps.SETTLING * CONFIG.occupancy.interval_at(0)
    samples_per_ray = whole.samples_per_second / whole.rays_per_second
    assert 0 < samples_per_ray <= march_geometry(CONFIG, scene.extent).most_intervals
