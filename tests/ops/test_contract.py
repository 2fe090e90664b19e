"""The contraction of far space and its gradient, by their laws; the self-test compares kernels."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.common.checks import InputError
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.contract import to_unit

BOUNDS = Bounds(11.0, 2.6)


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def contracted(position: np.ndarray, bounds: Bounds) -> np.ndarray:
    """mip-NeRF 360's equation 10 in float64, with the largest coordinate as length."""
    x = (position - 0.5) / (bounds.inner / 2)
    length = np.abs(x).max(axis=1, keepdims=True)
    shell = (2.0 - 1.0 / np.maximum(length, 1.0)) * x / np.maximum(length, 1.0)
    most = 2.0 - bounds.inner / bounds.extent
    return np.where(length <= 1.0, x, shell) / (2.0 * most) + 0.5


def positions(count: int) -> np.ndarray:
    """Positions from near the centre to the cube's faces, without a preference for an axis."""
    random = np.random.default_rng(count)
    away = random.normal(size=(count, 3))
    away /= np.abs(away).max(axis=1, keepdims=True)
    half = BOUNDS.extent / 2
    return 0.5 + half * np.exp(random.uniform(-5.0, 0.0, (count, 1))) * away


def test_positions_are_those_of_the_formula():
    position = positions(500)
    is_near = np.abs(position - 0.5).max(axis=1) <= BOUNDS.inner / 2
    assert 0.3 < is_near.mean() < 0.9
    unit = np.array(to_unit(mx.array(position, mx.float32), BOUNDS))
    np.testing.assert_allclose(unit, contracted(position, BOUNDS), atol=3e-7)
    assert unit.min() >= 0
    assert unit.max() <= 1


def test_the_gradient_is_the_jacobian_by_finite_differences():
    position, size = positions(400), 1e-6
    # Away from the inner cube's faces and from where two coordinates are the largest.
    sides = np.sort(np.abs(position - 0.5), axis=1)
    is_smooth = (sides[:, 2] - sides[:, 1] > 1e-3) & (np.abs(sides[:, 2] - 1.3) > 1e-3)
    position = position[is_smooth]
    weights = np.random.default_rng(1).normal(size=position.shape)
    slope = np.zeros_like(position)
    for axis, step in enumerate(size * np.eye(3)):
        up, down = contracted(position + step, BOUNDS), contracted(position - step, BOUNDS)
        slope[:, axis] = ((up - down) * weights).sum(axis=1) / (2 * size)

    def total(position: mx.array) -> mx.array:
        return (to_unit(position, BOUNDS) * mx.array(weights, mx.float32)).sum()

    got = np.array(mx.grad(total)(mx.array(position, mx.float32)))
    np.testing.assert_allclose(got, slope, atol=2e-6)
    largest = np.abs(position - 0.5).argmax(axis=1)
    assert set(largest) == {0, 1, 2}


def test_without_a_contraction_positions_and_their_bits_are_as_before():
    position = mx.array(positions(100), mx.float32)
    for bounds in (Bounds(11.0), Bounds(11.0, 11.0), Bounds(11.0, 30.0)):
        assert mx.array_equal(to_unit(position, bounds), (position - 0.5) / 11.0 + 0.5)
    assert to_unit(position, Bounds(1.0)) is position


@pytest.mark.parametrize("wrong", [mx.zeros((4, 2)), mx.zeros((3,)), mx.zeros((4, 3), mx.int32)])
def test_what_are_no_positions_is_refused_by_name(wrong):
    with pytest.raises(InputError, match=r"^positions "):
        to_unit(wrong, BOUNDS)
