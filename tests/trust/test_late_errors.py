"""Failed GPU work is never saved, shown, or continued, even if MLX raises the error late."""

import time
from collections import Counter
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Goal, Trainer
from nerfmac.app.run import Run, Training, outputs, resume, run as run_module, train
from nerfmac.app.video import frames as video_frames
from nerfmac.app.viewer.images import Images
from nerfmac.backend.watchdog import note
from nerfmac.config.rendering import RenderOptions
from nerfmac.rendering import evaluation
from tests.app.viewer.conftest import Page
from tests.backend.test_watchdog import ON_METAL
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")
FAILURE = ON_METAL[0]
STEPS = 24
STEPS_PER_REPORT = 4  # the interval between updates of the occupancy grid at the beginning


class LateGpu:
    """GPU whose launch number `at` fails: it leaves bytes of other arrays in its outputs, and the
    error is raised once, by a launch that begins `late` launches later, or by `confirm`."""

    def __init__(self, monkeypatch, at, late, *, spoils=True):
        self.launches, self.at, self.late, self.spoils = 0, at, late, spoils
        self.has_raised = False
        advance = Trainer.advance
        monkeypatch.setattr(Trainer, "advance", lambda *all: self.advance(advance, *all))
        monkeypatch.setattr(mx, "synchronize", self.check)

    def check(self, late=0):
        """Raise the error if the launch has failed at least `late` launches ago."""
        if self.launches >= self.at + late and not self.has_raised:
            self.has_raised = True
            raise RuntimeError(FAILURE)

    def advance(self, advance, trainer, state, *options):
        self.launches += 1
        self.check(self.late)
        state, result = advance(trainer, state, *options)
        if self.launches == self.at and self.spoils:
            spoiled = {
                tree: {name: recycled(values) for name, values in getattr(state, tree).items()}
                for tree in ("parameters", "average", "moments")
            }
            state = replace(state, **spoiled)
            result = result._replace(measured=recycled(result.measured))
        return state, result


def recycled(values):
    """The bytes of an array in the reverse order, which are as finite as they were."""
    return mx.contiguous(values.reshape(-1)[::-1].reshape(values.shape))


@pytest.fixture(scope="module")
def good(scene):
    """The states of an undisturbed run, by step."""
    run, states = Run.begin(scene, CONFIG), {}

    def keep(report):
        states.update(kept(report.state))

    resume(run, Goal(steps=STEPS), progress=False, on_report=keep)
    return states


def kept(state):
    return {state.step: {name: np.array(each) for name, each in state.arrays().items()}}


def assert_good(states, good):
    for state in states:
        ((step, arrays),) = kept(state).items()
        for name, values in arrays.items():
            assert np.array_equal(values, good[step][name]), f"{name} after step {step}"


@pytest.mark.parametrize("late", [1, 2, STEPS_PER_REPORT])
@pytest.mark.parametrize("at", [1, 7, 8, 9, STEPS - 1, STEPS])
def test_no_failed_state_is_saved_shown_or_continued(scene, good, tmp_path, monkeypatch, at, late):
    training, saved, shown = Training.begin(Run.begin(scene, CONFIG), tmp_path / "run"), [], []
    run = training.run
    save = run_module.save_checkpoint
    monkeypatch.setattr("nerfmac.app.run.training.SAVE_SECONDS", -1.0)
    monkeypatch.setattr(
        run_module, "save_checkpoint", lambda *all: saved.append(all[1]) or save(*all)
    )
    gpu = LateGpu(monkeypatch, at, late)
    training.train(
        Goal(steps=STEPS), progress=False, on_report=lambda _report: shown.append(run.state)
    )
    assert gpu.has_raised
    assert {state.step for state in shown} == set(good)
    assert_good(shown, good)
    # The first checkpoint and those after a failure have the state before the first report.
    assert_good([state for state in saved if state.step], good)
    assert saved[-1].step == STEPS
    assert_good([Run.load(tmp_path / "run").state], good)


def test_an_error_that_other_code_catches_restarts_training(scene, good, monkeypatch):
    run, shown = Run.begin(scene, CONFIG), []
    gpu = LateGpu(monkeypatch, at=10, late=2)  # or by a launch, if no image is drawn until then

    def show(_report):
        shown.append(run.state)
        try:
            gpu.check()
        except RuntimeError as error:
            note(error)

    resume(run, Goal(steps=STEPS), progress=False, on_report=show)
    assert gpu.has_raised
    assert_good(shown, good)


def test_training_goes_on_after_an_error_that_drawing_raises(scene, good, monkeypatch):
    page, draw = Page(Run.begin(scene, CONFIG)), Images.draw
    page.session.training.goal = Goal(steps=STEPS)
    page.session.training.start()
    while page.session.training.is_preparing:
        page.loop.work()
    gpu = LateGpu(monkeypatch, at=10, late=2)  # or by a launch, if no image is drawn until then

    def failing(self, *arguments):
        drawn = draw(self, *arguments)
        if gpu.launches >= 10:
            gpu.check()
        return drawn

    monkeypatch.setattr(Images, "draw", failing)
    page.open(48, 32)
    end = time.monotonic() + 300
    while page.session.training.is_running:
        page.turn()
        page.loop.work()
        assert time.monotonic() < end, page.session.training.status()
    assert gpu.has_raised
    assert_good([page.session.run.state], good)


def fail_late(monkeypatch, owner, call):
    """Let `owner.to_numpy` return other bytes at a call, and raise the error at the next call or
    in `confirm`."""
    count, convert = Counter(), owner.to_numpy

    def check():
        if count["calls"] >= call and not count["errors"]:
            count["errors"] += 1
            raise RuntimeError(FAILURE)

    def failing(array):
        if count["calls"] >= call:
            check()
        count["calls"] += 1
        return convert(array) if count["calls"] != call else np.flip(convert(array))

    monkeypatch.setattr(owner, "to_numpy", failing)
    monkeypatch.setattr(mx, "synchronize", check)
    return count


@pytest.mark.parametrize("call", [1, 3, 5])
def test_no_failed_frame_is_in_a_video(trained_run, monkeypatch, call):
    frames = [(camera,) for camera in trained_run.orbit(frames=5)]
    want = list(video_frames.FrameRenderer(trained_run, RenderOptions()).images(frames))
    count = fail_late(monkeypatch, video_frames, call)
    got = list(video_frames.FrameRenderer(trained_run, RenderOptions()).images(frames))
    assert count["errors"] == 1
    assert len(got) == len(want)
    assert all(map(np.array_equal, got, want))


@pytest.mark.parametrize("call", [1, 9, 32])  # four images of each of eight views
def test_no_image_of_a_failed_view_is_passed_on(trained_run, monkeypatch, call):
    views, got = trained_run.views("train"), []

    def images():
        found = []
        for _ in evaluation.evaluate(
            trained_run.renderer, views, on_view=lambda view, all: found.append((view, *all))
        ):
            pass
        return found

    want = images()
    count = fail_late(monkeypatch, evaluation, call)
    got = images()
    assert count["errors"] == 1
    assert [view[0] for view in got] == [view[0] for view in want]
    for ours, theirs in zip(got, want, strict=True):
        assert all(map(np.array_equal, ours[1:], theirs[1:]))


def failing_wait():
    raise RuntimeError(FAILURE)


def test_nothing_is_returned_or_written_if_the_last_launch_has_failed(
    trained_run, tmp_path, monkeypatch
):
    trained_run.save(tmp_path)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    monkeypatch.setattr(mx, "synchronize", failing_wait)
    with pytest.raises(RuntimeError, match="Impacting"):
        trained_run.save(tmp_path)
    with pytest.raises(RuntimeError, match="Impacting"):
        trained_run.render(trained_run.cameras[0])
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_no_metrics_are_written_if_their_computation_has_failed(scene, tmp_path, monkeypatch):
    preview = outputs.save_preview

    def failing(*arguments, **options):
        preview(*arguments, **options)
        monkeypatch.setattr(mx, "synchronize", failing_wait)

    monkeypatch.setattr(outputs, "save_preview", failing)
    with pytest.raises(RuntimeError, match="Impacting"):
        train(scene, config=CONFIG, goal=Goal(steps=2), out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run/metrics.json").exists()
    assert Run.load(tmp_path / "run").state.step == 2


def test_values_that_are_not_finite_are_a_failure_of_the_gpu_if_it_has_failed(
    scene, good, monkeypatch
):
    gpu = LateGpu(monkeypatch, at=10, late=99, spoils=False)
    advance = Trainer.advance

    def failing(trainer, *arguments):
        state, result = advance(trainer, *arguments)
        factor = np.nan if gpu.launches == 10 else 1.0
        return state, result._replace(measured=result.measured * factor)

    monkeypatch.setattr(Trainer, "advance", failing)
    run = Run.begin(scene, CONFIG)
    for _ in Training(run).fit(Goal(steps=STEPS, report_interval=0.0)):
        pass
    assert gpu.has_raised
    assert run.state.step == STEPS
    assert_good([run.state], good)
