"""Training, evaluation, videos, and the viewer continue after macOS has ended the GPU's work."""

from collections import Counter
from math import ceil

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Goal, Model
from nerfmac.app.run import Run, Training, resume
from nerfmac.app.video import frames as video_frames
from nerfmac.app.viewer.images import Images
from nerfmac.backend import is_relaxed, watchdog
from nerfmac.config.rendering import RenderOptions
from nerfmac.fields.encodings import HashGrid
from nerfmac.rendering.metrics import Sums
from nerfmac.training import checkpoint
from nerfmac.training.trainer import StepQueue, Trainer
from tests.app.viewer.conftest import Page
from tests.backend.test_watchdog import ON_METAL
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")
FAILURE = ON_METAL[0]  # the others have the same effect
(IGNORED,) = (text for text in ON_METAL if "Ignored" in text)
STEPS = 24


def fail_at(monkeypatch, owner, name, calls):
    """Let the method `name` raise at its calls of these numbers, from 1 on; returns the count."""
    count, method = Counter(), getattr(owner, name)

    def wrapped(self, *arguments, **options):
        count[name] += 1
        if count[name] in calls:
            raise RuntimeError(FAILURE)
        return method(self, *arguments, **options)

    monkeypatch.setattr(owner, name, wrapped)
    return count


@pytest.mark.parametrize("calls", [{1}, {20}, {20, 21, 22}])
def test_training_continues_from_the_last_good_state(
    scene, trained_run, tmp_path, monkeypatch, caplog, calls
):
    training = Training.begin(Run.begin(scene, CONFIG), tmp_path / "run")
    run = training.run
    fail_at(monkeypatch, StepQueue, "add", calls)
    monkeypatch.setattr(
        "nerfmac.fields.encoded.features_per_launch",
        lambda: CONFIG.grid.levels * CONFIG.grid.features * (1000 if is_relaxed() else 1e9),
    )
    monkeypatch.setattr("nerfmac.app.run.training.SAVE_SECONDS", 1e9)
    encoded, encode = set(), HashGrid.__call__
    monkeypatch.setattr(
        HashGrid, "__call__", lambda *all: encoded.add(all[2].position.shape[0]) or encode(*all)
    )
    saved = []
    save = checkpoint.save_checkpoint
    monkeypatch.setattr(
        "nerfmac.app.run.run.save_checkpoint", lambda *all: saved.append(all[1].step) or save(*all)
    )
    training.train(Goal(steps=STEPS), progress=False)
    assert run.state.step == STEPS
    want = trained_run.state.arrays()
    for name, values in run.state.arrays().items():
        assert np.array_equal(np.array(values), np.array(want[name])), name
    assert saved[-1] == STEPS
    assert len(saved) == len(calls) + 1
    assert len([record for record in caplog.records if FAILURE in record.getMessage()]) == len(
        calls
    )
    assert "an error in nerfmac" not in caplog.text
    assert any("shorter launches" in step for step in training.trainer.traces.counts)
    # Both the marched samples and the points in updates of the grid are divided.
    marched = CONFIG.march.march_factor * CONFIG.march.max_samples
    updated = ceil(CONFIG.occupancy.warmup_fraction * run.model.sampler.geometry.cells)
    for points in (marched, updated):
        assert encoded >= {points, ceil(points / ceil(points / 1000))}
    assert Run.load(tmp_path / "run").state.step == STEPS


class RejectingGpu:
    """GPU whose launch number `KILLED` macOS stops. It then rejects the next `rejections` command
    buffers, empty ones as well."""

    KILLED = 17

    def __init__(self, monkeypatch, rejections):
        self.launches, self.rejections, self.pauses = 0, rejections, []
        add = StepQueue.add
        monkeypatch.setattr(StepQueue, "add", lambda *all: self.add(add, *all))
        monkeypatch.setattr(mx, "synchronize", self.submit)
        monkeypatch.setattr(watchdog.time, "sleep", self.pauses.append)
        monkeypatch.setattr(watchdog, "PAUSE", 5.0)

    def add(self, add, queue, state):
        self.launches += 1
        if self.launches == self.KILLED:
            raise RuntimeError(FAILURE)
        self.submit()
        add(queue, state)

    def submit(self):
        if self.launches >= self.KILLED and self.rejections > 0:
            self.rejections -= 1
            raise RuntimeError(IGNORED)


@pytest.mark.parametrize("rejections", [1, 2, 3, 1e9])
def test_rejected_command_buffers_cost_no_confirmed_step(scene, tmp_path, monkeypatch, rejections):
    training = Training.begin(Run.begin(scene, CONFIG), tmp_path / "run")
    monkeypatch.setattr("nerfmac.app.run.training.SAVE_SECONDS", 1e9)
    gpu, saved, save = RejectingGpu(monkeypatch, rejections), [], checkpoint.save_checkpoint
    monkeypatch.setattr(
        "nerfmac.app.run.run.save_checkpoint", lambda *all: saved.append(all[1].step) or save(*all)
    )
    confirmed = 8  # Steps 12 and 16 are computed, but no later launch has confirmed them.
    if rejections < 1e9:
        training.train(Goal(steps=STEPS), progress=False)
        assert training.run.state.step == STEPS
    else:
        with pytest.raises(RuntimeError, match="Ignored"):
            training.train(Goal(steps=STEPS), progress=False)
        assert training.run.state.step == training.saved_step == confirmed
    assert saved[0] == confirmed, "the first failure saves"
    assert Run.load(tmp_path / "run").state.step == training.run.state.step
    assert gpu.pauses == [5.0, 10.0, 20.0][: len(gpu.pauses)]


def test_a_failure_while_kernels_are_compiled_is_survived(scene, monkeypatch):
    run = Run.begin(scene, CONFIG)
    count = fail_at(monkeypatch, Trainer, "trial", {1, 2})
    resume(run, Goal(steps=3), progress=False)
    assert run.state.step == 3
    assert count["trial"] >= 3


@pytest.mark.parametrize("calls", [{1}, {5}, {4, 5, 6}])
def test_evaluation_continues_with_the_remaining_views(trained_run, monkeypatch, calls):
    want = trained_run.evaluate("train", progress=False)
    renderers = fail_at(monkeypatch, Model, "renderer", ())
    fail_at(monkeypatch, Sums, "mean", calls)
    assert list(trained_run.evaluate("train", progress=False)) == list(want)
    # Arrays that the old renderer was computing are lost.
    assert renderers["renderer"] == 1 + len(calls)


@pytest.mark.parametrize("calls", [{1}, {3}, {3, 4, 5}])
@pytest.mark.parametrize("part", ["images", "values"])
def test_a_video_continues_with_the_remaining_frames(trained_run, monkeypatch, calls, part):
    frames = [(camera,) for camera in trained_run.orbit(frames=5)]

    def drawn():
        found = getattr(video_frames.FrameRenderer(trained_run, RenderOptions()), part)(frames)
        return [np.array(each if part == "images" else each.values) for each in found]

    want = drawn()
    views = fail_at(monkeypatch, video_frames.ViewRenderer, "__init__", ())
    count, to_numpy = Counter(), video_frames.to_numpy

    def failing(array):
        count["calls"] += 1
        if count["calls"] in calls:
            raise RuntimeError(FAILURE)
        return to_numpy(array)

    monkeypatch.setattr(video_frames, "to_numpy", failing)
    got = drawn()
    assert len(got) == len(want) == 5
    assert all(map(np.array_equal, got, want))
    assert views["__init__"] == 2 + len(calls)


def test_the_viewer_draws_again(trained_run, monkeypatch):
    page, draw, failed = Page(trained_run), Images.draw, []

    def failing(self, *arguments):
        assert self not in failed  # arrays that it was computing are lost
        if len(failed) < 2:
            failed.append(self)
            raise RuntimeError(FAILURE)
        return draw(self, *arguments)

    monkeypatch.setattr(Images, "draw", failing)
    page.open(48, 32).settle()
    assert len(failed) == 2
    assert page.images()[-1][0]["still"]
    assert page.session.notice is None
