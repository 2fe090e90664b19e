"""Huber's loss: a parabola that goes over into two lines."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.training.losses import huber

ROUNDOFF = 2.0**-24


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def loss(error: np.ndarray, delta: float) -> np.ndarray:
    target = np.full_like(error, 0.25)
    return np.array(huber(mx.array(target + error), mx.array(target), delta), np.float64)


def slope(error: np.ndarray, delta: float) -> np.ndarray:
    zero = mx.zeros(error.shape)
    return np.array(mx.grad(lambda e: huber(e, zero, delta).sum())(mx.array(error)), np.float64)


@pytest.mark.parametrize("delta", [0.1, 0.3, 2.0])
def test_it_is_square_up_to_delta_and_then_linear(delta):
    error = np.linspace(-1.0, 1.0, 41, dtype=np.float32)
    size = np.abs(error.astype(np.float64))
    want = np.where(size <= delta, size**2 / (2 * delta), size - delta / 2)
    # The error is a difference of numbers up to 1.25, and the square divided by delta.
    assert np.abs(loss(error, delta) - want).max() < 8 * ROUNDOFF / min(delta, 1.0)


@pytest.mark.parametrize("delta", [0.1, 0.3])
def test_it_and_its_slope_are_continuous_where_it_turns_linear(delta):
    around = delta * np.array([1 - 1e-4, 1 + 1e-4, -1 + 1e-4, -1 - 1e-4], np.float32)
    value, steepness = loss(around, delta), slope(around, delta)
    assert value == pytest.approx(delta / 2, rel=1e-3)
    assert steepness == pytest.approx([1, 1, -1, -1], rel=1e-3)


@pytest.mark.parametrize("delta", [0.1, 0.3])
def test_its_slope_rises_evenly_to_one_and_stays(delta):
    error = np.array([-9.0, -delta * 2, -delta / 4, 0.0, delta / 2, delta * 3, 50.0], np.float32)
    want = np.clip(error.astype(np.float64) / delta, -1, 1)
    assert slope(error, delta) == pytest.approx(want, rel=8 * ROUNDOFF)


def test_it_is_element_by_element_and_symmetric():
    random = np.random.default_rng(1)
    a, b = (random.uniform(size=(5, 3)).astype(np.float32) for _ in range(2))
    one, other = (np.array(huber(mx.array(x), mx.array(y), 0.1)) for x, y in ((a, b), (b, a)))
    assert one.shape == (5, 3)
    assert (one == other).all()
    assert (np.array(huber(mx.array(a), mx.array(a), 0.1)) == 0).all()
    single = huber(mx.array(a[2:3, 1:2]), mx.array(b[2:3, 1:2]), 0.1).item()
    assert single == one[2, 1]
