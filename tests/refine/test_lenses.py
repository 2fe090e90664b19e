"""Lenses shared by views: grouping, refined values, and gradients against the inverse of a lens."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Lens, Samples
from nerfmac.config import RefineConfig
from nerfmac.geometry import Camera, Cameras, Rays, directions, rays_through
from nerfmac.refine.lenses import SharedLenses, lens_conditioning, lens_jvp
from nerfmac.refine.refinement import LENSES, CameraRefinement
from tests.numerics import assert_matches

pytestmark = pytest.mark.usefixtures("on_the_cpu")

PHONE = Lens(40, 30, 38.0, 39.0, 21.0, 14.0, k1=-0.1, k2=0.03, p1=0.002)
WIDE = Lens(30, 40, 22.0, 22.5, 14.0, 19.0)


def cameras(*lenses: Lens) -> Cameras:
    eyes = ((1.9, 0.6, 0.9), (0.3, 2.4, 0.2), (-0.8, -0.5, 1.6), (0.4, -1.7, 0.8))
    return Cameras.stack(
        [
            Camera.look_at(eye, (0.5, 0.45, 0.55), (0.1, 0, 1), lens)
            for eye, lens in zip(eyes, lenses, strict=False)
        ]
    )


def test_views_of_one_size_and_lens_share_it_in_the_order_of_their_first():
    shared = SharedLenses(cameras(PHONE, WIDE, PHONE, replace(PHONE, k1=-0.11)))
    assert shared.of_views.tolist() == [0, 1, 0, 2]
    assert len(shared) == 3


def test_a_corrected_lens_is_that_of_all_its_views_and_of_no_other_camera():
    shared = SharedLenses(cameras(PHONE, WIDE, PHONE))
    changes = mx.array([[0.1, -0.02, 0.01], [-0.2, 0.03, 0.0]])
    other = replace(PHONE, cx=20.0)
    found = shared.refined(cameras(WIDE, PHONE, other), changes)
    assert found[0].lens.fl_x == pytest.approx(22.0 * np.exp(-0.2), rel=1e-6)
    assert found[0].lens.k1 == pytest.approx(0.03)
    assert found[1].lens.fl_y == pytest.approx(39.0 * np.exp(0.1), rel=1e-6)
    assert (found[1].lens.k1, found[1].lens.k2) == pytest.approx((-0.12, 0.04))
    assert found[1].lens.p1 == pytest.approx(0.002), "the others stay"
    assert found[2].lens.fl_x == pytest.approx(38.0)
    assert found[2].lens.k1 == pytest.approx(-0.1)


def test_numbers_of_a_lens_move_what_is_seen_by_about_as_much():
    views = cameras(PHONE, WIDE)
    for matrix, lens in zip(lens_conditioning(views), (PHONE, WIDE), strict=True):
        column, row = np.meshgrid(np.arange(lens.width) + 0.5, np.arange(lens.height) + 0.5)
        x, y = (column - lens.cx) / lens.fl_x, (row - lens.cy) / lens.fl_y
        square = (x * x + y * y).ravel()
        moved = np.sqrt(square) / (1 + square) * np.stack([np.ones_like(square), square, square**2])
        plain = np.linalg.svd(moved / np.sqrt(square.size), compute_uv=False)
        own = np.linalg.svd(matrix.astype(float) @ moved / np.sqrt(square.size), compute_uv=False)
        assert own[0] / own[-1] < 0.2 * plain[0] / plain[-1]
        assert 0.5 < own[0] < 1.6


def test_the_gradient_of_lenses_is_that_of_samples_whose_pixels_stay():
    views = cameras(PHONE, WIDE, PHONE)
    config = RefineConfig(lenses=True)
    refinement = CameraRefinement(config, views)
    view = mx.array([2, 0, 1, 2], mx.int32)
    pixel = mx.array([[33.5, 4.5], [6.5, 25.5], [24.5, 33.5], [11.5, 3.5]])
    ray = mx.array([0, 0, 1, 2, 3], mx.int32)
    distance = mx.array([1.0, 1.5, 1.2, 0.7, 2.1])
    weights = mx.random.normal((5, 3), key=mx.random.key(1))
    now = np.random.default_rng(4).normal(scale=0.02, size=(2, 3)).astype(np.float32)

    def rays(learned: np.ndarray) -> Rays:
        return rays_through(refinement.cameras({LENSES: mx.array(learned)}), view, pixel)

    def loss(learned: mx.array) -> mx.array:
        given = rays(now)
        position = given.origin[ray] + distance[:, None] * given.direction[ray]
        start = mx.array([0, 2, 3, 4, 5], mx.int32)
        samples = Samples(position, distance, distance, ray, start, start[1:])
        warped, moved = refinement.warp_samples({LENSES: learned}, samples, given, view)
        return (weights * warped.position).sum() + moved.direction.sum()

    def moved(learned: np.ndarray) -> float:
        given = [np.array(each, np.float64) for each in rays(learned.astype(np.float32))]
        position = given[0][ray] + np.array(distance)[:, None] * given[1][ray]
        return float((np.array(weights) * position).sum() + given[1].sum())

    got, want = np.array(mx.grad(loss)(mx.array(now))), np.zeros((2, 3))
    for place in np.ndindex(2, 3):
        step = np.zeros((2, 3), np.float32)
        step[place] = 4e-3
        want[place] = (moved(now + step) - moved(now - step)) / 8e-3
    assert np.abs(want).min() > 0.01
    assert_matches(got, want, rel=5e-3, name="d lenses")


POINTS = ((0.31, -0.12), (-0.02, 0.27), (0.45, 0.4), (-0.36, -0.05))
GIVEN = {
    "pinhole": (0, 0, 0, 0, 0, 0, 0),
    "photo": (-0.21, 0.13, -0.02, 0.01, 0.004, -0.007, 0),
    "fisheye": (0.08, -0.03, 0.012, -0.004, 0, 0, 1),
}


def unit(point: np.ndarray, lens: np.ndarray) -> np.ndarray:
    """Return the direction through `lens` at each point, computed with Newton's method."""
    given = mx.array(point.astype(np.float32)), mx.array(lens.astype(np.float32))
    seen = np.array(directions(*given, bool(lens[0, 6])), np.float64)
    return seen / np.linalg.norm(seen, axis=1, keepdims=True)


@pytest.mark.parametrize("name", GIVEN)
def test_the_gradient_in_a_lens_is_that_of_its_inverse(name):
    lens, points = np.array([GIVEN[name]] * len(POINTS), float), np.array(POINTS)
    weights = mx.random.normal((len(POINTS), 3), key=mx.random.key(1))
    seen = mx.array(unit(points, lens).astype(np.float32))

    def loss(stretch: mx.array, distortion: mx.array) -> mx.array:
        return (weights * lens_jvp(seen, stretch, distortion, name == "fisheye")).sum()

    zero, now = mx.zeros((len(POINTS), 1)), mx.array(lens.astype(np.float32))
    assert float(loss(zero, now)) == 0.0
    stretch, distortion = map(np.array, mx.grad(loss, argnums=(0, 1))(zero, now))

    def slope(change) -> np.ndarray:
        up, down = (unit(*change(step)) for step in (4e-3, -4e-3))
        return (np.array(weights) * (up - down)).sum(axis=1) / 8e-3

    def bent(which):
        return lambda step: (points, lens + step * np.eye(7)[which])

    # A focal length that is longer by a factor leaves the pixel nearer to the middle, in its units.
    got = [stretch[:, 0], *distortion.T[: 4 if name == "fisheye" else 6]]
    changes = [lambda step: (points * np.exp(-step), lens), *map(bent, range(len(got) - 1))]
    want = np.array([slope(change) for change in changes])
    assert np.abs(want).max(axis=1).min() > 1e-4
    np.testing.assert_allclose(np.array(got), want, atol=2e-4, rtol=2e-3)


def test_a_direction_that_a_lens_does_not_see_has_a_finite_gradient():
    seen = mx.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.6, -0.8]])
    lens = mx.array([[0.1, 0, 0, 0, 0, 0, each] for each in (0, 1, 1)], mx.float32)

    def loss(stretch: mx.array, distortion: mx.array) -> mx.array:
        return mx.square(lens_jvp(seen, stretch, distortion, True) + 1.0).sum()

    for gradient in mx.grad(loss, argnums=(0, 1))(mx.zeros((3, 1)), lens):
        assert mx.all(mx.isfinite(gradient))
