"""`surface_threshold`: the density whose level set lies where training rays meet surfaces.

That is where a ray's transmittance falls to one half. A lower threshold puts the surface before
that point; a higher one puts it behind, or leaves a hole.
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
"""Surface density of well-trained runs, per scene unit; also used if no ray meets a surface."""
CANDIDATES = DEFAULT * 10.0 ** (np.arange(-24, 13) / 12.0)
"""Candidate thresholds, densities per scene unit from 1 to 1000."""
RAYS = 4096
STEPS = 256
"""Number of steps of a ray along the box's longest side."""
FARTHEST = 8.0
"""Largest distance, in steps, that a ray adds to a threshold's mean; a hole counts as this."""
SLACK = 1.0
"""`DEFAULT` is kept if its mean distance is worse than the best by at most this many steps. Rays
that graze a surface pass through less of it, which favors lower densities."""
BATCH = 2**18
"""Number of points whose density is evaluated at a time."""


def surface_threshold(
    source: Source, region: Region, cameras: Sequence[Camera], seed: int
) -> float:
    """The surface density, per scene unit, that fits best to what the training cameras see.

    It minimizes the mean distance between a ray's first point of higher density and the point where
    the ray's transmittance falls to one half. Rays whose transmittance stays higher in the region
    do not count. 100 is preferred if it is within one step of the best.
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
        distance = np.where(is_hole, FARTHEST, np.abs(first_denser - end))
        distances.append(np.minimum(distance, FARTHEST).mean())
    default, best = int(np.argmin(np.abs(CANDIDATES - DEFAULT))), int(np.argmin(distances))
    return float(CANDIDATES[default if distances[default] <= distances[best] + SLACK else best])


def _ray_points(
    source: Source, region: Region, cameras: Sequence[Camera], seed: int
) -> tuple[float, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Points at equal steps along random rays, from where they enter the box.

    Returns the step in scene units, scene positions (rays, points, 3), and whether a point is in
    the box (rays, points).
    """
    rays = training_rays(cameras, RAYS, np.random.default_rng(seed))
    origin, direction = np.array(rays.origin, np.float64), np.array(rays.direction, np.float64)
    placement = source.placement
    # Slabs of the box, which is axis-aligned in the files' coordinates, not in the scene's.
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
