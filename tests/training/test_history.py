"""A history keeps the means of all reports in few points."""

from types import SimpleNamespace

import numpy as np
import pytest

from nerfmac.training.history import MOST_POINTS, History


def report(step, loss, psnr):
    state = SimpleNamespace(step=step, train_seconds=0.5 * step)
    return SimpleNamespace(state=state, loss=loss, psnr=psnr)


def test_few_reports_are_kept_one_by_one():
    history = History([])
    for step in (3, 5, 9):
        history.add(report(step, 1.0 / step, float(step)))
    assert history.points == [(3, 1.5, 1 / 3, 3.0), (5, 2.5, 0.2, 5.0), (9, 4.5, 1 / 9, 9.0)]
    assert history.generation == 0


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
