"""How far light reaches: how many of a ray's samples it meets, and which cells it gets to.

A ray ends where `composite` ends it: before the first sample that less than 1e-4 of the light
reaches. What is behind needs no colour and has no gradient. To find it the density alone of all
marched samples is evaluated, side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import END, composite, count_reached
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, march, march_reference
from nerfmac.ops.signature import Signature

FAR = 1e9
"""The distance of light that nothing ends. Metal's fast math knows no infinity."""

Density = Callable[[mx.array, mx.array], mx.array]
"""Densities (room,) at positions (room, 3), of which the first `used` (1,) int32 count."""

_TAKES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    jitter=(mx.float32, "rays"),
    until=(mx.float32, "rays"),
)
_LIT = Kernel(
    "march",
    "march_lit",
    inputs=(*_TAKES.names, "settings"),
    outputs=("lit",),
    rows="origins_shape[0]",
    accumulates=True,
)


class Reach(NamedTuple):
    """How many of each ray's samples light reaches; both are (rays,) int32."""

    reached: mx.array  # all of them for a ray that did not fit
    tried: mx.array  # all samples the ray has in occupied cells


def reach(density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, room: int) -> Reach:
    """How many samples each ray has before it ends. Nothing is differentiable.

    Args:
        density: evaluates the field.
        rays, jitter: as in `march`.
        occupied: the cells that rays are sampled in.
        room: how many samples are evaluated at most. The first ray whose samples do not all fit,
            and those after it, count as reached by light to their last sample.

    Raises:
        InputError: a wrong shape or type.
    """
    marched, found = _tried(density, rays, jitter, occupied, room)
    along = marched.width, marched.ray_start
    return Reach(mx.stop_gradient(count_reached(found, *along, marched.wanted)), marched.wanted)


def light_ends(
    density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, room: int
) -> mx.array:
    """(rays,) float32: the distance of the last place that each ray's light gets to.

    FAR if it goes on behind the last sample, and 0 where samples do not fit. Arguments and errors
    as in `reach`.
    """
    marched, found = _tried(density, rays, jitter, occupied, room)
    along = marched.width, marched.ray_start
    opacity = composite(found, mx.zeros_like(marched.position), marched.distance, *along).opacity
    reached = count_reached(found, *along, marched.ray_start[1:] - marched.ray_start[:-1])
    last = mx.maximum(marched.ray_start[:-1] + reached - 1, 0)
    # Half a step further: rounding must not leave out the last sample itself.
    end = marched.distance[last] + 0.5 * marched.width[last]
    end = mx.where(opacity > 1.0 - END, end, FAR)
    return mx.stop_gradient(mx.where(marched.fits, end, 0.0))


def _tried(
    density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, room: int
) -> tuple[Samples, mx.array]:
    marched = march(*rays, jitter, occupied.bits, occupied.geometry, room)
    return marched, density(marched.position, marched.used)


def lit_cells(rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry) -> mx.array:
    """(cells,) bool: the cells in which any ray has a place for a sample up to its `until`.

    Args:
        rays, jitter: as in `march`.
        until: (rays,) float32, the distance at which each ray's light ends, at most FAR.
        geometry: the scene's cube, the grid and the steps.

    Raises:
        InputError: a wrong shape or type.
    """
    count = _TAKES.check(*rays, jitter, until)["rays"]
    if not runs_kernel("march"):
        return _lit_reference(rays, jitter, until, geometry)
    (lit,) = _LIT(
        *rays,
        jitter,
        until,
        geometry.settings(),
        grid=(count, 1, 1),
        output_shapes=[(geometry.cells,)],
        output_dtypes=[mx.uint32],
    )
    return lit.astype(mx.bool_)


def _lit_reference(
    rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry
) -> mx.array:
    everywhere = mx.full((geometry.cells // 32,), 2**32 - 1, mx.uint32)
    is_place, position, distance, _ = march_reference(*rays, jitter, everywhere, geometry)
    is_lit = is_place & (distance <= until[:, None])
    # What is not lit goes to one extra cell, which is cut off afterwards.
    cell = mx.where(is_lit, cell_of(position, geometry), geometry.cells)
    return mx.zeros(geometry.cells + 1, mx.bool_).at[cell].maximum(is_lit)[:-1]
