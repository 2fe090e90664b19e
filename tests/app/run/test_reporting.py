"""Histories of reports, laps of the clock, rays of a step, and steps that wait for the device."""

from dataclasses import replace
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import choose_device, load_scene
from nerfmac.app.run.reporting import MOST_POINTS, History
from nerfmac.training.trainer import StepQueue
from tests.scene_factory import CONFIG, initial, trainer_of, write_scene


def report(step, loss, psnr):
    state = SimpleNamespace(step=step, train_seconds=0.5 * step)
    return SimpleNamespace(state=state, loss=loss, psnr=psnr)


def test_many_reports_are_merged_and_their_mean_stays():
    history, rng = History([]), np.random.default_rng(3)
    losses = rng.uniform(size=16 * MOST_POINTS)
    for step, loss in enumerate(losses, 1):
        history.add(report(step, loss, 10 * loss))
    points = history.points
    assert MOST_POINTS // 2 <= len(points) <= MOST_POINTS
    assert history.generation > 0
    steps = [point.step for point in points]
    assert steps == sorted(set(steps))
    covered = losses[: steps[-1]]
    weights = np.diff([0, *steps])
    assert np.average([p.loss for p in points], weights=weights) == pytest.approx(covered.mean())
    assert np.average([p.psnr for p in points], weights=weights) == pytest.approx(
        10 * covered.mean()
    )


def test_a_curve_has_no_more_points_than_asked_for_and_ends_where_the_history_does():
    history = History([])
    for step in range(1, 254):
        history.add(report(step, 1.0, float(step)))
    curve = history.curve(100)
    assert 50 <= len(curve) <= 100
    assert curve[-1][0] == 253
    assert curve[0] == (3, 1.5, 2.0)


def test_never_more_than_two_steps_are_queued(tmp_path, monkeypatch):
    choose_device("cpu")
    scene = load_scene(write_scene(tmp_path))
    state, begun, awaited = initial(trainer_of(CONFIG, scene.bounds, scene.views("train"))), [], []
    states = [replace(state, parameters={"color": mx.array(float(step))}) for step in range(6)]
    monkeypatch.setattr(mx, "async_eval", lambda arrays: begun.append(arrays["parameters.color"]))
    monkeypatch.setattr(mx, "eval", awaited.append)
    queue = StepQueue()
    for step, each in enumerate(states):
        queue.add(each)
        assert [values.item() for values in begun] == list(range(step + 1))
        assert [values.item() for values in awaited] == list(range(step - 1))
