"""Density threshold of the level set that best matches the surfaces along training rays.

The surface on a ray is the point where the transmittance decreases to one half. With a lower
threshold, the level set is in front of the surface. With a higher threshold, it is behind the
surface or has a hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.app.export.source import Region, Source, training_rays
from nerfmac.geometry.cameras import Camera

DEFAULT = 100.0
"""Typical density per scene unit at the surfaces of a well-trained run, also used if no ray hits a
surface."""
CANDIDATES = DEFAULT * 10.0 ** (np.arange(-24, 13) / 12.0)
"""Candidate thresholds in density per scene unit, from 1 to 1000."""
RAYS = 4096
STEPS = 256  # Number of ray steps along the longest side of the box.
MAX_DISTANCE = 8.0
"""Maximum distance, in steps, between the level set and the surface on a ray. Holes count as this
distance."""
SLACK = 1.0
"""Tolerance, in steps, for preferring `DEFAULT`: its mean distance may exceed the smallest mean
distance by this value. Grazing rays favor lower densities, because they pass through less of the
surface."""
BATCH = 2**18  # Number of points for which the density is evaluated at a time.


def surface_threshold(
    source: Source, region: Region, cameras: Sequence[Camera], seed: int
) -> float:
    """Find the density threshold, per scene unit, of the level set that best matches the surfaces
    on random training rays.

    For each candidate, the distance is measured between the first point with a higher density and
    the point where the transmittance decreases to one half. The result is the candidate with the
    smallest mean distance, or `DEFAULT` if its mean distance is within `SLACK` steps of the
    minimum. Rays are ignored if their transmittance remains above one half.
    """
    step, position, is_inside = _ray_points(source, region, cameras, seed)
    is_inside &= source.occupied.hold(*np.moveaxis(position, -1, 0))
    density = np.zeros(is_inside.shape, np.float32)
    index = np.argwhere(is_inside)
    for first in range(0, len(index), BATCH):
        some = tuple(index[first : first + BATCH].T)
        values = source.density(mx.array(position[some], mx.float32))
        density[some] = np.nan_to_num(np.array(values), posinf=1e30)
    is_lit = np.cumsum(density * np.float32(step), axis=1) < log(2.0)
    ends = ~is_lit[:, -1:].any(axis=1)
    if not ends.any():
        return DEFAULT
    densest_yet: npt.NDArray[np.float32] = np.maximum.accumulate(density[ends], axis=1)
    end = is_lit[ends].sum(axis=1)
    distances = []
    for candidate in CANDIDATES:
        first_denser = (densest_yet <= candidate).sum(axis=1)
        is_hole = first_denser == densest_yet.shape[-1]
        distance = np.where(is_hole, MAX_DISTANCE, np.abs(first_denser - end))
        distances.append(np.minimum(distance, MAX_DISTANCE).mean())
    default, best = int(np.argmin(np.abs(CANDIDATES - DEFAULT))), int(np.argmin(distances))
    return float(CANDIDATES[default if distances[default] <= distances[best] + SLACK else best])


def _ray_points(
    source: Source, region: Region, cameras: Sequence[Camera], seed: int
) -> tuple[float, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return points at equal steps along random training rays, from where a ray enters the box.

    Returns:
        The step in scene units, scene positions (rays, points, 3), and a boolean array (rays,
        points) that is True for points inside the box.
    """
    rays = training_rays(cameras, RAYS, np.random.default_rng(seed))
    origin, direction = np.array(rays.origin, np.float64), np.array(rays.direction, np.float64)
    placement = source.placement
    # The slabs of the box are computed in file coordinates, because the box is axis-aligned only
    # there.
    start = placement.to_file(origin)
    along = placement.turned_to_file(direction) / placement.scale
    along = np.where(np.abs(along) < 1e-12, 1e-12, along)
    faces = np.stack([(region.low - start) / along, (region.high - start) / along])
    enters = np.maximum(faces.min(axis=0).max(axis=1), 0.0)
    leaves = faces.max(axis=0).min(axis=1)
    hits = leaves > enters
    step = placement.scale * float((region.high - region.low).max()) / STEPS
    count = int(np.ceil((leaves - enters)[hits].max(initial=0.0) / step)) + 1
    distance = enters[hits, None] + step * (np.arange(count) + 0.5)
    position = origin[hits, None] + distance[..., None] * direction[hits, None]
    return step, position, distance < leaves[hits, None]
