"""Where a pixel looks when its lens changes, against the lens's own inverse."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.rays import directions
from nerfmac.refine.lenses import lens_jvp

pytestmark = pytest.mark.usefixtures("on_the_cpu")

POINTS = ((0.31, -0.12), (-0.02, 0.27), (0.45, 0.4), (-0.36, -0.05))
LENSES = {
    "pinhole": (0, 0, 0, 0, 0, 0, 0),
    "photo": (-0.21, 0.13, -0.02, 0.01, 0.004, -0.007, 0),
    "fisheye": (0.08, -0.03, 0.012, -0.004, 0, 0, 1),
}


def unit(point: np.ndarray, lens: np.ndarray) -> np.ndarray:
    """Return the direction through `lens` at each point, computed with Newton's method."""
    given = mx.array(point.astype(np.float32)), mx.array(lens.astype(np.float32))
    seen = np.array(directions(*given, bool(lens[0, 6])), np.float64)
    return seen / np.linalg.norm(seen, axis=1, keepdims=True)


@pytest.mark.parametrize("name", LENSES)
def test_the_gradient_in_a_lens_is_that_of_its_inverse(name):
    lens, points = np.array([LENSES[name]] * len(POINTS), float), np.array(POINTS)
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
