"""Visibility along rays: how many samples light reaches, where it ends, which cells it passes.

A ray ends as in `composite`: before the first sample with a transmittance below 1e-4. Samples
behind need no colour and have no gradient. The density of all marched samples is evaluated first,
in parallel over samples, to find that end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import EARLY_STOP_TRANSMITTANCE, composite, count_visible
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, march, march_reference
from nerfmac.ops.signature import Signature

FAR = 1e9
"""Termination distance of a ray that no matter ends. Metal's fast math has no infinity."""

Density = Callable[[mx.array, mx.array], mx.array]
"""Densities (capacity,) at positions (capacity, 3), of which the first `used` (1,) int32 count."""

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


class VisibleCounts(NamedTuple):
    """Numbers of samples of each ray; both are (rays,) int32."""

    visible: mx.array  # samples before the ray ends; all marched ones if they did not fit
    marched: mx.array  # all samples in occupied cells


def visible_counts(
    density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, capacity: int
) -> VisibleCounts:
    """Count the samples of each ray before it ends. Nothing is differentiable.

    Args:
        density: evaluates the field.
        rays, jitter: as in `march`.
        occupied: the cells that rays are sampled in.
        capacity: most samples to evaluate. The first ray whose samples do not all fit, and those
            after it, count all their samples as visible.

    Raises:
        InputError: a wrong shape or type.
    """
    marched, densities = _marched(density, rays, jitter, occupied, capacity)
    along = marched.width, marched.ray_start
    visible = mx.stop_gradient(count_visible(densities, *along, marched.wanted))
    return VisibleCounts(visible, marched.wanted)


def termination_distances(
    density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, capacity: int
) -> mx.array:
    """Distance at which each ray ends, (rays,) float32.

    FAR for a ray that still has light after its last sample, 0 where samples do not fit. Arguments
    and errors are as in `visible_counts`.
    """
    marched, densities = _marched(density, rays, jitter, occupied, capacity)
    along = marched.width, marched.ray_start
    no_colour = mx.zeros_like(marched.position)
    opacity = composite(densities, no_colour, marched.distance, *along).opacity
    visible = count_visible(densities, *along, marched.ray_start[1:] - marched.ray_start[:-1])
    last = mx.maximum(marched.ray_start[:-1] + visible - 1, 0)
    # Half a step further: rounding must not leave out the last sample itself.
    end = marched.distance[last] + 0.5 * marched.width[last]
    end = mx.where(opacity > 1.0 - EARLY_STOP_TRANSMITTANCE, end, FAR)
    return mx.stop_gradient(mx.where(marched.fits, end, 0.0))


def _marched(
    density: Density, rays: Rays, jitter: mx.array, occupied: Occupied, capacity: int
) -> tuple[Samples, mx.array]:
    marched = march(*rays, jitter, occupied, capacity)
    return marched, density(marched.position, marched.used)


def visible_cells(
    rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry
) -> mx.array:
    """Whether each cell holds a sample position of a ray up to its `until`: (cells,) bool.

    Args:
        rays, jitter: as in `march`.
        until: (rays,) float32, each ray's termination distance, at most FAR.
        geometry: the scene's cube, the grid and the steps.

    Raises:
        InputError: a wrong shape or type.
    """
    count = _TAKES.check(*rays, jitter, until)["rays"]
    if not runs_kernel("march"):
        return _visible_reference(rays, jitter, until, geometry)
    (visible,) = _VISIBLE(
        *rays,
        jitter,
        until,
        geometry.settings(),
        grid=(count, 1, 1),
        output_shapes=[(geometry.cells,)],
        output_dtypes=[mx.uint32],
    )
    return visible.astype(mx.bool_)


def _visible_reference(
    rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry
) -> mx.array:
    everywhere = Occupied(geometry, mx.full((geometry.cells // 32,), 2**32 - 1, mx.uint32))
    is_position, position, distance, _ = march_reference(*rays, jitter, everywhere)
    is_visible = is_position & (distance <= until[:, None])
    # Positions beyond the end go to one extra cell, which is cut off afterwards.
    cell = mx.where(is_visible, cell_of(position, geometry), geometry.cells)
    return mx.zeros(geometry.cells + 1, mx.bool_).at[cell].maximum(is_visible)[:-1]
