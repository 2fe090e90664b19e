"""The direction basis, against the textbook's associated Legendre functions in float64."""

from math import factorial, pi, sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.ops.spherical_harmonics import spherical_harmonics

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
FIRST_ORDER = sqrt(3.0 / (4.0 * pi))


def unit(count: int) -> np.ndarray:
    directions = np.random.default_rng(count).normal(size=(count, 3))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def textbook(direction: np.ndarray) -> np.ndarray:
    """Real spherical harmonics with the Condon-Shortley phase, coefficient l^2 + l + m."""
    z, angle = direction[:, 2], np.arctan2(direction[:, 1], direction[:, 0])
    s = np.sqrt(1.0 - z**2)
    legendre = {
        (0, 0): np.ones_like(z),
        (1, 0): z,
        (1, 1): -s,
        (2, 0): (3 * z**2 - 1) / 2,
        (2, 1): -3 * z * s,
        (2, 2): 3 * s**2,
        (3, 0): (5 * z**3 - 3 * z) / 2,
        (3, 1): -1.5 * (5 * z**2 - 1) * s,
        (3, 2): 15 * z * s**2,
        (3, 3): -15 * s**3,
    }
    columns = []
    for l in range(4):  # noqa: E741 - the field's letter
        for m in range(-l, l + 1):
            k = abs(m)
            norm = sqrt((2 * l + 1) / (4 * pi) * factorial(l - k) / factorial(l + k))
            around = np.sin(k * angle) if m < 0 else np.cos(k * angle)
            columns.append(norm * (sqrt(2.0) if m else 1.0) * legendre[l, k] * around)
    return np.stack(columns, axis=1)


def test_values_are_the_textbooks():
    directions = unit(301)
    got = spherical_harmonics(mx.array(directions, mx.float32))
    assert_matches(got, textbook(directions), rel=32 * ROUNDOFF, name="basis")


def test_the_basis_is_orthonormal_over_the_sphere():
    # 8 Gauss-Legendre nodes in z and 16 angles integrate products up to degree 15 exactly.
    z, weight = np.polynomial.legendre.leggauss(8)
    angle = 2 * pi * np.arange(16) / 16 + 0.1
    z, angle = (each.ravel() for each in np.meshgrid(z, angle, indexing="ij"))
    s = np.sqrt(1 - z**2)
    directions = np.stack([s * np.cos(angle), s * np.sin(angle), z], axis=1)
    basis = np.array(spherical_harmonics(mx.array(directions, mx.float32)), np.float64)
    gram = (basis * np.repeat(weight, 16)[:, None] * 2 * pi / 16).T @ basis
    assert np.abs(gram - np.eye(16)).max() < 1e-6


@pytest.mark.parametrize(("axis", "coefficient", "sign"), [(0, 3, -1), (1, 1, -1), (2, 2, 1)])
def test_the_first_order_is_the_axes_with_the_signs_of_tiny_cuda_nn(axis, coefficient, sign):
    directions = unit(50)
    basis = np.array(spherical_harmonics(mx.array(directions, mx.float32)))
    want = sign * FIRST_ORDER * directions[:, axis]
    assert_matches(basis[:, coefficient], want, rel=4 * ROUNDOFF, name="first order")


def test_the_gradient_along_the_sphere_is_the_textbooks_finite_difference():
    directions, step = unit(64), 1e-5
    random = np.random.default_rng(2)
    mix = random.normal(size=(64, 16))
    tangent = np.cross(directions, random.normal(size=(64, 3)))
    ahead, behind = (
        moved / np.linalg.norm(moved, axis=1, keepdims=True)
        for moved in (directions + step * tangent, directions - step * tangent)
    )
    want = ((textbook(ahead) - textbook(behind)) * mix).sum(axis=1) / (2 * step)

    def loss(directions: mx.array) -> mx.array:
        return (spherical_harmonics(directions) * mx.array(mix, mx.float32)).sum()

    gradient = np.array(mx.grad(loss)(mx.array(directions, mx.float32)), np.float64)
    assert_matches((gradient * tangent).sum(axis=1), want, rel=128 * ROUNDOFF, name="along")


def polynomials(d: np.ndarray) -> np.ndarray:
    """The basis as polynomials of x, y and z, of any length."""
    x, y, z = d.T
    one, two, three = FIRST_ORDER, sqrt(15 / (4 * pi)), sqrt(35 / (32 * pi))
    mixed, outer = sqrt(105 / (4 * pi)), sqrt(21 / (32 * pi))
    return np.stack(
        [
            np.full_like(x, sqrt(1 / (4 * pi))),
            -one * y,
            one * z,
            -one * x,
            two * x * y,
            -two * y * z,
            sqrt(5 / (16 * pi)) * (3 * z**2 - 1),
            -two * x * z,
            two / 2 * (x**2 - y**2),
            three * y * (y**2 - 3 * x**2),
            mixed * x * y * z,
            outer * y * (1 - 5 * z**2),
            sqrt(7 / (16 * pi)) * z * (5 * z**2 - 3),
            outer * x * (1 - 5 * z**2),
            mixed / 2 * z * (x**2 - y**2),
            three * x * (3 * y**2 - x**2),
        ],
        axis=1,
    )


def test_the_gradient_is_that_of_the_polynomials_off_the_sphere_too():
    # Cubic polynomials: differences of float64 values of the test's own, fitted from unit vectors.
    directions, step = 1.3 * unit(40), 1e-4
    mix = np.random.default_rng(3).normal(size=(40, 16))

    assert_matches(polynomials(unit(9)), textbook(unit(9)), rel=1e-12, name="the polynomials")
    want = np.zeros((40, 3))
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        difference = polynomials(directions + shift) - polynomials(directions - shift)
        want[:, axis] = (difference * mix).sum(axis=1) / (2 * step)

    def loss(directions: mx.array) -> mx.array:
        return (spherical_harmonics(directions) * mx.array(mix, mx.float32)).sum()

    got = mx.grad(loss)(mx.array(directions, mx.float32))
    assert_matches(got, want, rel=64 * ROUNDOFF, name="d directions")
