"""Training repeats, learns, resumes and stops as it should, on the CPU."""

from collections import deque
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import DivergedError, Goal, Report, Trainer
from nerfmac.backend import backend
from nerfmac.config import RefineConfig, override
from nerfmac.rendering.evaluation import evaluate
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.state import TrainState
from nerfmac.training.step import Step, is_camera_step
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def trainer_for(scene, **changes):
    return trainer_of(override(CONFIG, **changes), scene.bounds, scene.views("train"))


def trained(trainer, steps):
    """Train from the start; return all reports."""
    return list(trainer.train(initial(trainer), Goal(steps=steps)))


def arrays(state):
    return {name: np.array(values) for name, values in state.arrays().items()}


def assert_same(one, other):
    """Fail unless two states are equal bit for bit, but for the seconds they took."""
    assert without_seconds(one) == without_seconds(other)
    got, want = arrays(one), arrays(other)
    assert got.keys() == want.keys()
    for name in want:
        assert got[name].tobytes() == want[name].tobytes(), f"{name} differs"


def without_seconds(state):
    return {**state.numbers(), "train_seconds": None}


@pytest.mark.parametrize(("off", "name", "steps"), [("", "cpu", 40), ("1", "reference", 3)])
def test_the_same_seed_and_steps_give_the_same_bits(scene, monkeypatch, off, name, steps):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", off)
    assert backend() == name
    one, other = (trained(trainer_for(scene), steps)[-1] for _ in range(2))
    assert_same(one.state, other.state)
    assert one.loss == other.loss


def test_a_first_step_is_the_same_with_and_without_kernels(scene, monkeypatch):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", "1")
    assert backend() == "reference"
    without = trained(trainer_for(scene), 1)[-1]
    monkeypatch.delenv("NERFMAC_DISABLE_KERNELS")
    with_kernels = trained(trainer_for(scene), 1)[-1]
    assert with_kernels.loss == pytest.approx(without.loss, rel=1e-4)
    assert float(with_kernels.state.samples_per_ray) == float(without.state.samples_per_ray)


def test_training_makes_images_of_unseen_views_better(scene):
    quality = []
    for seed in range(2):  # seeds differ by 1.5 dB: the images are few and tiny
        trainer = trainer_for(scene, seed=seed)
        states = initial(trainer), trained(trainer, 400)[-1].state
        views = [
            evaluate(partial(trainer.model.renderer, state), scene.views("test"))
            for state in states
        ]
        quality.append([np.mean([view.psnr for view in each]) for each in views])
    before, after = np.mean(quality, axis=0)
    assert after > before + 2, f"{before:.1f} dB before, {after:.1f} dB after"


@pytest.fixture(scope="module")
def uninterrupted(scene):
    """Return the last state of a training of 90 steps."""
    return trained(trainer_for(scene), 90)[-1].state


@pytest.mark.parametrize("at", [1, 20, 64])
def test_an_interruption_at_any_report_changes_no_bit(scene, uninterrupted, tmp_path, at):
    steps, path = uninterrupted.step, tmp_path / "checkpoint.safetensors"
    for report in (first := trainer_for(scene)).train(initial(first), Goal(steps=steps)):
        if report.state.step >= at:
            break
    save_checkpoint(path, report.state, {})
    assert report.state.step < steps

    second = trainer_for(scene)
    loaded, _ = load_checkpoint(path, second.model.shapes)
    assert_same(loaded, report.state)
    assert_same(list(second.train(loaded, Goal(steps=steps)))[-1].state, uninterrupted)


def test_a_step_is_traced_once_for_each_number_of_rays(scene, monkeypatch):
    traced, step = [], Step.__call__

    def counting(self, *arguments):
        traced.append(self.rays)
        return step(self, *arguments)

    monkeypatch.setattr(Step, "__call__", counting)
    monkeypatch.setattr("nerfmac.training.trainer.compiled_ahead", nullcontext)  # no trace
    trainer = trainer_for(scene)
    deque(trainer.compile(initial(trainer)), maxlen=0)
    # Numbers of rays: while there is a report for each step, it contains the rays of the next step.
    used = {report.state.rays for report in trained(trainer, 60)} | {CONFIG.train.rays}
    assert sorted(traced) == sorted(used)
    assert len(used) > 2


def test_the_next_step_has_the_rays_that_the_last_report_asks_for(scene):
    trainer = trainer_for(scene)
    reports = trained(trainer, 30)  # a report a step
    for before, after in pairwise(reports):
        wanted = RayBudget.of(CONFIG).rays(float(before.state.samples_per_ray))
        assert after.state.rays == wanted, f"step {after.state.step}"


def test_the_intervals_between_updates_of_the_grid_never_decrease(scene, monkeypatch):
    updated, keep = [], Trainer._keep_sampling

    def recorded(self, state, *others):
        updated.append(state.step)
        return keep(self, state, *others)

    monkeypatch.setattr(Trainer, "_keep_sampling", recorded)
    trainer = trainer_for(scene)
    half = trained(trainer, 200)[-1].state
    saved = TrainState.of(half.arrays(), half.numbers())
    deque(trainer.train(saved, Goal(steps=320)), maxlen=0)
    intervals = np.diff(updated)
    assert [CONFIG.occupancy.interval_at(step) for step in updated[:-1]] == intervals.tolist()
    assert (intervals == np.sort(intervals)).all()
    assert (intervals[0], intervals[-1]) == (4, 16)


@pytest.fixture
def now(monkeypatch):
    """The time in seconds, one in the list: a look at the clock takes a hundredth."""
    time = [100.0]

    def look() -> float:
        time[0] += 0.01
        return time[0]

    monkeypatch.setattr("nerfmac.training.clock.time.perf_counter", look)
    return time


def test_seconds_end_a_run(scene, now):
    trainer = trainer_for(scene)
    reports = list(trainer.train(initial(trainer), Goal(seconds=0.4)))
    assert reports[-2].state.train_seconds < 0.4 <= reports[-1].state.train_seconds
    assert reports[-1].progress == 1.0
    assert [report.progress for report in reports] == sorted(r.progress for r in reports)


@pytest.mark.parametrize("steps", [1, 2, 35, 50])
def test_steps_end_a_run_exactly(scene, steps):
    reports = trained(trainer_for(scene), steps)
    assert reports[-1].state.step == steps
    assert reports[-1].progress == 1.0
    assert len({report.state.step for report in reports}) == len(reports)


def test_a_loss_that_is_not_finite_ends_the_run_before_it_is_reported(scene):
    trainer = trainer_for(scene, optimizer={"rate": 1e14})
    reports = [Report(initial(trainer), 0.0, 0.0, 0.0, 0.0, 0.0)]
    with pytest.raises(DivergedError, match=r"not finite"):
        reports.extend(trainer.train(reports[0].state, Goal(steps=50)))
    good = reports[-1].state
    assert good.step < 50
    for name in ("parameters", "average"):
        for part, values in getattr(good, name).items():
            assert mx.all(mx.isfinite(values)), f"{name}.{part} of the last report is not finite"


def test_parameters_that_are_not_finite_are_never_reported(scene):
    trainer = trainer_for(scene)
    state = initial(trainer)
    # A moment that overflows spoils the parameters even if all gradients of the step are finite.
    infinite = mx.full(state.moments["color"].shape, 0x7F800FFF << 1, mx.uint32)
    spoiled = {**state.moments, "color": infinite}
    with pytest.raises(DivergedError, match="parameters are not finite after step 4"):
        next(trainer.train(replace(state, moments=spoiled), Goal(steps=5)))
    # Parameters that are not finite spoil the gradients: the step is skipped and reported too.
    spoiled = {**state.parameters, "color": state.parameters["color"] * np.nan}
    with pytest.raises(DivergedError, match="parameters are not finite after step 4"):
        next(trainer.train(replace(state, parameters=spoiled), Goal(steps=5)))


def test_a_goal_that_changes_meanwhile_is_heeded(scene):
    trainer = trainer_for(scene)
    goal = Goal(report_interval=0.0)
    steps = []
    for report in trainer.train(initial(trainer), goal):
        steps.append(report.state.step)
        if report.state.step == 3:
            goal.steps = 5
    assert steps == [1, 2, 3, 4, 5]


def test_the_device_computes_the_next_step_during_a_report(scene, monkeypatch):
    launched, advance = [], Trainer.advance

    def counted(self, state, *arguments):
        launched.append(state.step + 1)
        return advance(self, state, *arguments)

    monkeypatch.setattr(Trainer, "advance", counted)
    trainer = trainer_for(scene)
    steps = [(r.state.step, launched[-1]) for r in trainer.train(initial(trainer), Goal(steps=10))]
    assert steps == [(4, 5), (8, 9), (10, 10)]


def test_the_goals_rate_scales_the_learning_rate(scene):
    trainer = trainer_for(scene)
    start = initial(trainer)

    def moved(rate):
        (report,) = trainer.train(start, Goal(steps=1, rate=rate))
        new, old = (np.array(state.parameters["table"]) for state in (report.state, start))
        return np.linalg.norm(new - old)

    assert moved(0.5) == pytest.approx(0.5 * moved(1.0), rel=1e-3)


def test_training_without_an_end_keeps_the_rate_that_a_finished_run_has_reached(scene, monkeypatch):
    trainer, used, advance = trainer_for(scene), [], Trainer.advance

    def recorded(self, state, factor, train_frac):
        used.append((factor, train_frac))
        return advance(self, state, factor, train_frac)

    monkeypatch.setattr(Trainer, "advance", recorded)
    *_, last = trainer.train(initial(trainer), Goal(steps=12))
    finished = last.state
    used.clear()
    *_, last = islice(trainer.train(finished, Goal(report_interval=0.0)), 9)
    assert {frac for _, frac in used} == {1.0}
    decayed = trainer.config.optimizer
    assert [factor for factor, _ in used] == pytest.approx(
        [decayed.factor_at(1.0, step) for step in range(12, 12 + len(used))]
    )
    # A limit decides again: the rate is that of the completed fraction.
    used.clear()
    *_, _last = trainer.train(last.state, Goal(steps=200))
    assert used[0][1] == last.state.step / 200


def test_rays_per_second_are_those_since_the_last_report(scene, monkeypatch):
    seconds = iter(range(10**6))  # of the clock: one between two readings
    monkeypatch.setattr("nerfmac.training.clock.time.perf_counter", lambda: float(next(seconds)))
    trainer = trainer_for(scene, march={"max_samples": 2**11})
    done, before = 0, 0.0
    for report in trained(trainer, 40):
        steps, passed = report.state.step - done, report.state.train_seconds - before
        assert report.rays_per_second * passed == pytest.approx(steps * report.state.rays, rel=0.5)
        done, before = report.state.step, report.state.train_seconds


def test_cameras_move_in_every_eighth_step():
    config = RefineConfig(poses=True)
    assert [step for step in range(17) if is_camera_step(step, config)] == [0, 8, 16]
    assert not is_camera_step(8, RefineConfig(exposures=True))
