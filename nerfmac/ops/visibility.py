"""Visibility along rays: termination distances, and the occupancy grid cells that rays reach.

As in `composite`, a ray ends in front of the first sample with a transmittance below 1e-4. Samples
behind the end of a ray require no color and have no gradient. To find the end of each ray, the
density of all marched samples is evaluated in parallel.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from nerfmac.backend import Kernel
from nerfmac.common.constants import BRICK_CELLS, EARLY_STOP_TRANSMITTANCE, FAR_DISTANCE
from nerfmac.geometry.rays import Rays
from nerfmac.ops.composite import composite
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, march, march_reference
from nerfmac.ops.operation import operation
from nerfmac.ops.signature import Signature
from nerfmac.ops.thin import count_kept

Density = Callable[[mx.array, mx.array], mx.array]
"""Function that returns densities (capacity,), given positions (capacity, 3) and the number of
valid positions, int32 (1,)."""

_TAKES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    jitter=(mx.float32, "rays"),
    until=(mx.float32, "rays"),
)
_VISIBLE = Kernel(
    "march",
    "march_visible",
    inputs=(*_TAKES.names, "settings"),
    outputs=("visible",),
    rows="origins_shape[0]",
    accumulates=True,
)


def termination_distances(
    density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, capacity: int
) -> mx.array:
    """Return the termination distance of each ray. The result is not differentiable.

    Args:
        density: Function that evaluates the density of the field.
        rays, jitter: Arrays as in `march`.
        occupied: Cells to sample.
        capacity: Maximum total number of samples to evaluate. If the maximum is insufficient for
            all samples of a ray, this ray and all later rays are not evaluated.

    Returns:
        Distance (rays,) float32 in scene units. If the transmittance behind a ray's last sample is
        above the threshold, the distance is `FAR_DISTANCE`. If a ray was not evaluated, the
        distance is 0.

    Raises:
        InputError: If a shape or type is wrong.
    """
    marched = march(*rays, jitter, occupied, capacity)
    densities = density(marched.position, marched.used)
    along = marched.width, marched.ray_start
    no_color = mx.zeros_like(marched.position)
    opacity = composite(densities, no_color, marched).opacity
    visible = count_kept(densities, *along, mx.zeros_like(jitter), 0.0)
    last = mx.maximum(marched.ray_start[:-1] + visible - 1, 0)
    # Half a step is added so that rounding does not exclude the last sample.
    end = marched.distance[last] + 0.5 * marched.width[last]
    end = mx.where(opacity > 1.0 - EARLY_STOP_TRANSMITTANCE, end, FAR_DISTANCE)
    return mx.stop_gradient(mx.where(marched.fits, end, 0.0))


def visible_cells(
    rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry
) -> mx.array:
    """Return which cells of the occupancy grid the rays reach before they end.

    In this function, marching also visits cells that are not occupied.

    Args:
        rays, jitter: Arrays as in `march`.
        until: (rays,) float32, termination distance of each ray, at most FAR_DISTANCE.
        geometry: The scene cube, the grid, and the steps.

    Returns:
        bool array (cells,), True for each cell that contains a sample position in front of the
        termination distance of its ray.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _TAKES.check(*rays, jitter, until)
    return _visible(rays, jitter, until, geometry)


def _visible_reference(
    rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry
) -> mx.array:
    words = geometry.cells // BRICK_CELLS
    everywhere = Occupied(geometry, mx.full((words,), 2**32 - 1, mx.uint32))
    is_position, position, distance, _ = march_reference(*rays, jitter, everywhere)
    is_visible = is_position & (distance <= until[:, None])
    # Positions beyond the termination distance are written to an extra cell that is removed below.
    cell = mx.where(is_visible, cell_of(position, geometry), geometry.cells)
    return mx.zeros(geometry.cells + 1, mx.bool_).at[cell].maximum(is_visible)[:-1]


@operation("march", _visible_reference)
def _visible(rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry) -> mx.array:
    (visible,) = _VISIBLE(
        *(*rays, jitter, until, geometry.settings()),
        grid=(jitter.shape[0], 1, 1),
        output_shapes=[(geometry.cells,)],
        output_dtypes=[mx.uint32],
    )
    return visible.astype(mx.bool_)
