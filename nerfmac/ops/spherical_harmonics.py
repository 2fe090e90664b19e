"""Real spherical harmonics of directions: the sixteen functions of degrees 0 to 3.

The order and the signs of the functions are as in tiny-cuda-nn. tiny-cuda-nn calls these sixteen
functions "degree 4".
"""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common.constants import DIRECTION_FEATURES
from nerfmac.ops.operation import operation

_TAKES = Signature(directions=(mx.float32, "count", 3))
_GIVES = Signature(basis=(mx.float32, "count", DIRECTION_FEATURES))
_FORWARD = Kernel("spherical_harmonics", "spherical_harmonics_forward", _TAKES, _GIVES)
_GRADIENT = Kernel(
    "spherical_harmonics",
    "spherical_harmonics_gradient",
    Signature(**_TAKES, gradient=_GIVES["basis"]),
    Signature(direction_gradient=_TAKES["directions"]),
)


def spherical_harmonics(directions: mx.array) -> mx.array:
    """Evaluate the spherical harmonics of degrees 0 to 3 at directions.

    Args:
        directions: Unit vectors (count, 3) float32.

    Returns:
        Values (count, 16) float32, differentiable with respect to `directions`. The gradient is the
        gradient of the polynomials, without projection onto the sphere.

    Raises:
        InputError: If the shape or type is wrong.
    """
    _TAKES.check(directions)
    return _spherical_harmonics(directions)


def spherical_harmonics_reference(directions: mx.array) -> mx.array:
    """Reference implementation of `spherical_harmonics` in plain MLX, with the same arguments and
    results."""
    x, y, z = (directions[:, axis] for axis in range(3))
    x2, y2, z2 = x * x, y * y, z * z
    return mx.stack(
        [
            mx.full(x.shape, 0.28209479177387814),
            -0.48860251190291987 * y,
            0.48860251190291987 * z,
            -0.48860251190291987 * x,
            1.0925484305920792 * x * y,
            -1.0925484305920792 * y * z,
            0.31539156525251999 * (3.0 * z2 - 1.0),
            -1.0925484305920792 * x * z,
            0.54627421529603959 * (x2 - y2),
            -0.59004358992664352 * y * (3.0 * x2 - y2),
            2.8906114426405538 * x * y * z,
            -0.45704579946446572 * y * (5.0 * z2 - 1.0),
            0.3731763325901154 * z * (5.0 * z2 - 3.0),
            -0.45704579946446572 * x * (5.0 * z2 - 1.0),
            1.4453057213202769 * z * (x2 - y2),
            -0.59004358992664352 * x * (x2 - 3.0 * y2),
        ],
        axis=1,
    )


@operation("spherical_harmonics", spherical_harmonics_reference)
def _spherical_harmonics(directions: mx.array) -> list[mx.array]:
    return _FORWARD(directions, grid=(directions.shape[0], 1, 1))


@_spherical_harmonics.vjp
def _spherical_harmonics_vjp(directions, cotangent, _output):  # type: ignore[no-untyped-def]
    (gradient,) = _GRADIENT(directions, cotangent, grid=(directions.shape[0], 1, 1))
    return gradient
