"""`surface_threshold`: the density whose level set lies where the training cameras' light ends.

Light ends where a ray's transmittance falls to one half. A threshold that is too low puts the
surface before that place; one that is too high puts it behind, or leaves a hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.export.region import Region
from nerfmac.export.subject import Subject
from nerfmac.export.training_rays import training_rays
from nerfmac.geometry.cameras import Camera

USUAL = 100.0
"""Density, per scene unit, of the surface in well-trained runs; also where no light ends at all."""
CANDIDATES = USUAL * 10.0 ** (np.arange(-24, 13) / 12.0)
"""Densities that are tried, per scene unit, from 1 to 1000."""
RAYS = 4096
STEPS = 256
"""Steps of a ray along the box's longest side."""
FARTHEST = 8.0
"""Distance in steps that a farther surface, or a hole, counts as."""
SLACK = 1.0
"""Distance in steps, in the mean, by which `USUAL` may be worse and is kept: rays that graze a
surface have less of it before them, which favours lower densities."""
BATCH = 2**18
"""Points whose density is evaluated at a time."""

Array = npt.NDArray[np.float32]


class Pierced(NamedTuple):
    """Rays through the box: points at equal steps, from where each ray enters it."""

    step: float  # scene units
    position: npt.NDArray[np.float64]  # (rays, points, 3), scene space
    is_inside: npt.NDArray[np.bool_]  # (rays, points)


def surface_threshold(
    subject: Subject, region: Region, cameras: Sequence[Camera], seed: int
) -> float:
    """The density, per scene unit, at which the mesh fits best to what the cameras see.

    For each candidate it is the mean distance between the first point of a ray that is denser and
    the point where the ray's transmittance falls to one half, over rays whose light ends in the
    region. The best candidate wins, unless 100 is within one step of it.
    """
    pierced = _pierced(subject, region, cameras, seed)
    is_matter = pierced.is_inside & subject.matter.at(*np.moveaxis(pierced.position, -1, 0))
    density = np.zeros(is_matter.shape, np.float32)
    index = np.argwhere(is_matter)
    for first in range(0, len(index), BATCH):
        some = tuple(index[first : first + BATCH].T)
        position = mx.array(pierced.position[some], mx.float32)
        density[some] = np.nan_to_num(np.array(subject.density(position)), posinf=1e30)
    passed = np.cumsum(density * np.float32(pierced.step), axis=1) < log(2.0)
    is_stopped = ~passed[:, -1:].any(axis=1)
    if not is_stopped.any():
        return USUAL
    end = passed[is_stopped].sum(axis=1)
    distances = _distances(density[is_stopped], end)
    usual = int(np.argmin(np.abs(CANDIDATES - USUAL)))
    best = int(distances.argmin())
    return float(CANDIDATES[usual if distances[usual] <= distances[best] + SLACK else best])


def _pierced(subject: Subject, region: Region, cameras: Sequence[Camera], seed: int) -> Pierced:
    rays = training_rays(cameras, RAYS, np.random.default_rng(seed))
    origin, direction = (np.array(each, np.float64) for each in (rays.origin, rays.direction))
    placement = subject.placement
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
    return Pierced(step, position, distance < leaves[hits, None])


def _distances(density: Array, end: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(candidates,) mean distance in steps of the first denser point from `end` (rays,)."""
    densest_yet = np.maximum.accumulate(density, axis=1)
    means = []
    for candidate in CANDIDATES:
        first = (densest_yet <= candidate).sum(axis=1)
        away = np.where(first < density.shape[1], np.abs(first - end), FARTHEST)
        means.append(np.minimum(away, FARTHEST).mean())
    return np.array(means)
