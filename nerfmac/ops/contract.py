"""Unit coordinates of positions: the map of `Bounds.to_unit`, by a kernel where it is contracted.

Without a contraction the map is linear, and MLX fuses it with what is around it. A contraction has
a largest coordinate in it, which MLX does not fuse.
"""

from __future__ import annotations

from typing import cast

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.signature import Signature

_TAKES = Signature(positions=(mx.float32, "points", 3))
_GIVES = Signature(units=(mx.float32, "points", 3))
_FORWARD = Kernel(
    "contract",
    "contract_forward",
    inputs=("positions", "sides"),
    outputs=_GIVES.names,
    rows="positions_shape[0]",
)
_GRADIENT = Kernel(
    "contract",
    "contract_gradient",
    inputs=("positions", "sides", "gradient"),
    outputs=("position_gradient",),
    rows="positions_shape[0]",
)


def to_unit(positions: mx.array, bounds: Bounds) -> mx.array:
    """The coordinates (points, 3) in [0, 1] of `positions` (points, 3) float32 in the scene.

    Differentiable. `Bounds.to_unit` is the reference. Raises `InputError` for a wrong shape or type
    of contracted positions.
    """
    if bounds.is_contracted:
        _TAKES.check(positions)
        if runs_kernel("contract"):
            return cast(mx.array, _contract(positions, mx.array([bounds.extent, bounds.inner])))
    return bounds.to_unit(positions)


@mx.custom_function
def _contract(positions: mx.array, sides: mx.array) -> mx.array:
    points = positions.shape[0]
    (units,) = _FORWARD(positions, sides, grid=(points, 1, 1), **_GIVES.outputs(points=points))
    return units


@_contract.vjp
def _contract_vjp(primals, cotangent, _output):  # type: ignore[no-untyped-def]
    positions, sides = primals
    (gradient,) = _GRADIENT(
        positions,
        sides,
        cotangent,
        grid=(positions.shape[0], 1, 1),
        output_shapes=[positions.shape],
        output_dtypes=[mx.float32],
    )
    return gradient, mx.zeros_like(sides)
