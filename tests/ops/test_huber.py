"""The Huber loss and its slope equal their formulas, with and without a kernel."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.ops.huber import huber

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24


def gray(values: np.ndarray) -> mx.array:
    return mx.array(np.repeat(values[:, None], 3, axis=1))


def loss(error: np.ndarray, delta: float) -> np.ndarray:
    target = np.full_like(error, 0.25)
    return np.array(huber(gray(target + error), gray(target), delta), np.float64)


def slope(error: np.ndarray, delta: float) -> np.ndarray:
    target = mx.zeros((len(error), 3))
    gradient = mx.grad(lambda e: huber(e, target, delta).sum())(gray(error))
    return 3.0 * np.array(gradient, np.float64)


@pytest.mark.parametrize("delta", [0.1, 0.3, 2.0])
def test_it_is_square_up_to_delta_and_then_linear(delta):
    error = np.linspace(-1.0, 1.0, 41, dtype=np.float32)
    size = np.abs(error.astype(np.float64))
    want = np.where(size <= delta, size**2 / (2 * delta), size - delta / 2)
    # The error is a difference of numbers up to 1.25, and the square divided by delta.
    assert np.abs(loss(error, delta) - want).max() < 8 * ROUNDOFF / min(delta, 1.0)


@pytest.mark.parametrize("delta", [0.1, 0.3])
def test_its_slope_rises_evenly_to_one_and_stays(delta):
    places = [-9.0, -delta * 2, -delta / 4, 0.0, delta / 2, delta * 3, 50.0]
    error = np.array(places, np.float32)
    want = np.repeat(np.clip(error.astype(np.float64) / delta, -1, 1)[:, None], 3, axis=1)
    assert slope(error, delta) == pytest.approx(want, rel=8 * ROUNDOFF)


def test_it_is_the_mean_over_the_channels_of_each_ray_and_symmetric():
    random = np.random.default_rng(1)
    a, b = (random.uniform(size=(5, 3)).astype(np.float32) for _ in range(2))
    one, other = (np.array(huber(mx.array(x), mx.array(y), 0.1)) for x, y in ((a, b), (b, a)))
    channels = [np.array(huber(gray(a[:, c]), gray(b[:, c]), 0.1)) for c in range(3)]
    assert one == pytest.approx(np.mean(channels, axis=0), rel=8 * ROUNDOFF)
    assert (one == other).all()
    assert (np.array(huber(mx.array(a), mx.array(a), 0.1)) == 0).all()


def test_each_ray_has_its_own_slope():
    weights = mx.array([2.0, 0.0, -1.0])
    errors = mx.array([[0.05, 0.5, -0.5], [1.0, 1.0, 1.0], [-0.05, 0.0, 0.02]])
    got = mx.grad(lambda e: (weights * huber(e, mx.zeros((3, 3)), 0.1)).sum())(errors)
    want = np.array(weights)[:, None] * np.clip(np.array(errors) / 0.1, -1, 1) / 3
    assert np.array(got) == pytest.approx(want, rel=8 * ROUNDOFF)
