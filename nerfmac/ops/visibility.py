"""Visibility along rays: termination distances, and the occupancy grid cells that rays reach.

As in `composite`, a ray ends in front of the first sample with a transmittance below 1e-4. Samples
behind the end of a ray require no color and have no gradient. To find the end of each ray, the
density of all marched samples is evaluated in parallel.
"""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, simd_width
from nerfmac.common.constants import BRICK_CELLS, EARLY_STOP_TRANSMITTANCE, FAR_DISTANCE
from nerfmac.geometry import Rays, Samples
from nerfmac.ops.composite import weights_along
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, march_reference
from nerfmac.ops.operation import operation

_ENDS_TAKES = Signature(
    density=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    distances=(mx.float32, "slots"),
    ray_start=(mx.int32, "rays + 1"),
    wanted=(mx.int32, "rays"),
)
_ENDS = Kernel(
    "visibility",
    "visibility_ends",
    _ENDS_TAKES,
    Signature(ends=(mx.float32, "rays")),
    rows="wanted_shape[0]",
)
_TAKES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    jitter=(mx.float32, "rays"),
    until=(mx.float32, "rays"),
)
_VISIBLE = Kernel(
    "march",
    "march_visible",
    Signature(**_TAKES, settings=(mx.float32, 7)),
    Signature(visible=(mx.uint32, "cells")),
    accumulates=True,
)


def termination_distances(density: mx.array, samples: Samples) -> mx.array:
    """Return the termination distance of each ray. The result is not differentiable.

    Args:
        density: (slots,) float32, density of each sample.
        samples: Packed samples, without thinning.

    Returns:
        Distance (rays,) float32 in scene units. If the transmittance behind a ray's last sample is
        above the threshold, the distance is `FAR_DISTANCE`. If the ray does not fit (see
        `Samples.fits`), the distance is 0.

    Raises:
        InputError: If a shape or type is wrong.
    """
    arrays = density, samples.width, samples.distance, samples.ray_start, samples.wanted
    _ENDS_TAKES.check(*arrays, rays=samples.wanted.shape[0])
    return mx.stop_gradient(_ends(*arrays))


def _ends_reference(density, widths, distances, ray_start, wanted):  # type: ignore[no-untyped-def]
    along = weights_along(density, widths, ray_start)
    zeros, ray = mx.zeros_like(wanted), along.ray
    visible = zeros.at[ray].add(along.is_visible.astype(mx.int32))
    opacity = zeros.astype(mx.float32).at[ray].add(along.weight)
    last = mx.maximum(ray_start[:-1] + visible - 1, 0)
    # Half a step is added so that rounding does not exclude the last sample.
    end = distances[last] + 0.5 * widths[last]
    end = mx.where(opacity > 1.0 - EARLY_STOP_TRANSMITTANCE, end, FAR_DISTANCE)
    return mx.where(ray_start[1:] - ray_start[:-1] == wanted, end, 0.0)


@operation("visibility", _ends_reference)
def _ends(*arrays: mx.array) -> list[mx.array]:
    rays = arrays[-1].shape[0]
    return _ENDS(*map(mx.stop_gradient, arrays), grid=(rays * simd_width(), 1, 1))


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
    _TAKES.check(*rays[:2], jitter, until)
    return _visible(rays, jitter, until, geometry)


def _visible_reference(
    rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry
) -> mx.array:
    words = geometry.cells // BRICK_CELLS
    everywhere = Occupied(geometry, mx.full((words,), 2**32 - 1, mx.uint32))
    is_position, position, distance, _ = march_reference(*rays[:2], jitter, everywhere)
    is_visible = is_position & (distance <= until[:, None])
    # Positions beyond the termination distance are written to an extra cell that is removed below.
    cell = mx.where(is_visible, cell_of(position, geometry), geometry.cells)
    return mx.zeros(geometry.cells + 1, mx.bool_).at[cell].maximum(is_visible)[:-1]


@operation("march", _visible_reference)
def _visible(rays: Rays, jitter: mx.array, until: mx.array, geometry: MarchGeometry) -> mx.array:
    arrays = *rays[:2], jitter, until, geometry.settings()
    (visible,) = _VISIBLE(*arrays, grid=(jitter.shape[0], 1, 1), cells=geometry.cells)
    return visible.astype(mx.bool_)
