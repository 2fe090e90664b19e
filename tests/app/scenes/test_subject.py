"""The subject is what most photos show in their middle; points of the background do not count."""

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.scenes.placement import MIN_SUBJECT_POINTS, find_subject

CENTER = np.array([0.6, 0.35, 0.45])
LENS = Lens.from_fov(1.0, 48, 64)


def cameras(count=24, *, outwards=False, start=0.0):
    around = start + np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    eyes = np.stack([np.cos(around), np.sin(around), 0.3 + 0.0 * around], axis=1) + 0.5
    targets = [2.0 * eye - 0.5 if outwards else (0.5, 0.5, 0.5) for eye in eyes]
    return [Camera.look_at(eye, at, (0, 0, 1), LENS) for eye, at in zip(eyes, targets, strict=True)]


def ball(count=400):
    directions = np.random.default_rng(1).normal(size=(count, 3))
    return CENTER + 0.12 * directions / np.linalg.norm(directions, axis=1, keepdims=True)


def walls(count=3000):
    """Points on a wide cylinder around the scene, most of the photos' area."""
    random = np.random.default_rng(2)
    around = random.uniform(0.0, 2.0 * np.pi, count)
    return np.stack([4 * np.cos(around), 4 * np.sin(around), random.uniform(-2, 2, count)], axis=1)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_the_subject_is_in_the_middle_of_most_photos(start):
    subject = find_subject(np.concatenate([walls(), ball()]), cameras(start=start))
    assert subject.center == pytest.approx(CENTER, abs=0.02)
    assert subject.radius == pytest.approx(0.12, rel=0.2)


def test_a_texture_with_many_points_is_not_the_center_of_the_subject():
    """A plant with few points is on a cloth with many points. The photos show its middle."""
    random = np.random.default_rng(3)
    plant = 0.5 + np.array([0.1, 0.1, 0.2]) * random.uniform(-1.0, 1.0, (300, 3))
    cloth = 0.5 + np.array([0.12, 0.12, 0.0]) * random.uniform(-1.0, 1.0, (9000, 3)) - (0, 0, 0.2)
    subject = find_subject(np.concatenate([plant, cloth]), cameras())
    assert subject.center == pytest.approx((0.5, 0.5, 0.5), abs=0.07)
    assert subject.radius > 0.18


def test_there_is_no_subject_without_points_that_show_it():
    assert find_subject(None, cameras()) is None
    assert find_subject(np.zeros((0, 3)), cameras()) is None
    assert find_subject(ball(MIN_SUBJECT_POINTS - 1), cameras()) is None
    assert find_subject(ball(MIN_SUBJECT_POINTS), cameras()) is not None
    assert find_subject(ball() + (-0.1, 0.15, -0.5), cameras()) is None  # At the bottom of photos.
    assert find_subject(walls(), cameras()) is None
    assert find_subject(walls(), cameras(outwards=True)) is None
