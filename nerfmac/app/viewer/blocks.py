"""First sample and first occupied cell on each ray, for drawing cells as blocks.

Ray marching in small steps finds the cells. It can miss a corner of a cell that covers less than a
pixel. The distance to the point where the ray enters a cell is computed exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import mlx.core as mx

from nerfmac.common.constants import PARALLEL_SLOPE
from nerfmac.geometry.cells import cells_of, corners_of
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import (
    MarchGeometry,
    Occupied,
    cell_of,
    count_samples,
    is_occupied,
    write_samples,
)

MIN_STEP = 1 / 16  # Minimum marching step, relative to the side length of the smallest cell.
STEP_GROWTH = 1 / 1024
"""Length of a marching step, relative to the distance from the camera: about the width of a pixel
in an image with a width of 1000 pixels."""
NEIGHBOR_OFFSET = 1e-3
"""Distance, relative to the side length of a cell, from its face to the point that is used to look
up the neighboring cell."""


class FirstSamples(NamedTuple):
    """First sample of each ray."""

    samples: mx.array  # (rays,) int32, number of samples on the whole ray.
    # (rays,) float32, distance of the first sample in scene units, or 0 for a ray without samples.
    distance: mx.array
    # (rays, 3) float32, position of the first sample in scene coordinates; arbitrary for a ray
    # without samples.
    position: mx.array


class Blocks(NamedTuple):
    """First occupied cell of each ray."""

    is_hit: mx.array  # (rays,) bool.
    # (rays,) float32, distance to the entered face in scene units, or 0 for a ray without a hit.
    depth: mx.array
    axis: mx.array  # (rays,) int32, axis perpendicular to the entered face.
    cell: mx.array  # (rays,) int32, index of the cell, or -1 for a ray without a hit.


def first_samples(rays: Rays, bits: mx.array, geometry: MarchGeometry) -> FirstSamples:
    """Find the first sample, in the middle of its interval, and the number of samples of each ray
    with `ops.march`."""
    number = rays.origin.shape[0]
    march = (*rays, mx.full((number,), 0.5), Occupied(geometry, bits))
    count = count_samples(*march)
    ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(mx.minimum(count, 1))])
    packed = write_samples(*march, number, ray_start, mx.zeros_like(count))
    own = mx.minimum(ray_start[:-1], number - 1)
    distance = mx.where(count > 0, packed.distance[own], 0.0)
    return FirstSamples(count, distance, packed.position[own])


def first_blocks(rays: Rays, bits: mx.array, geometry: MarchGeometry) -> Blocks:
    """Find the first occupied cell that each ray hits. Cells are cubes, clipped to the scene
    cube."""
    fine = replace(geometry, step=MIN_STEP / geometry.resolution, cone=STEP_GROWTH)
    first = first_samples(rays, bits, fine)
    is_hit = first.samples > 0
    cell = cell_of(first.position, geometry)
    entry, axis = _enter(rays, cell, geometry)
    # A ray may cross an occupied cell between two samples, so that its first sample is in a later
    # cell. At a corner, the samples may miss up to three cells. Therefore, the loop moves each ray
    # back to the previous cell, up to three times, while the previous cell is occupied.
    for _ in range(3):
        beyond = NEIGHBOR_OFFSET * _side(cell, geometry)
        is_across = mx.arange(3) == axis[:, None]
        position = rays.origin + rays.direction * entry[:, None]
        position = position - mx.where(is_across, mx.sign(rays.direction) * beyond, 0.0)
        is_hidden = is_occupied(position, bits, geometry) & (entry > geometry.near)
        cell = mx.where(is_hidden, cell_of(position, geometry), cell)
        entry, axis = _enter(rays, cell, geometry)
    # If the camera is inside the cell, the depth is the distance of the near plane.
    depth = mx.where(is_hit, mx.maximum(entry, geometry.near), 0.0)
    return Blocks(is_hit, depth, axis, mx.where(is_hit, cell, -1))


def cascade_of(cell: mx.array, geometry: MarchGeometry) -> mx.array:
    """Return the cascade of each cell. The innermost cascade is 0."""
    return cells_of(mx.maximum(cell, 0), geometry.resolution).cascade


def _enter(rays: Rays, cell: mx.array, geometry: MarchGeometry) -> tuple[mx.array, mx.array]:
    """Return the distance to the point where each ray enters its cell, and the axis perpendicular
    to the entered face."""
    # These are the lowest and highest corners of the cells, clipped to the scene cube.
    corner, side = corners_of(cell, geometry.resolution)
    low, high = (float(end[0]) for end in geometry.bounds.corners)
    lowest, highest = mx.maximum(corner, low), mx.minimum(corner + side[:, None], high)
    # A ray that is parallel to two faces never crosses them, so the distance for this axis is set
    # to a value that is not the largest of the three.
    slope = mx.where(mx.abs(rays.direction) < PARALLEL_SLOPE, 1.0, rays.direction)
    face = (mx.where(slope > 0, lowest, highest) - rays.origin) / slope
    return face.max(axis=1), mx.argmax(face, axis=1).astype(mx.int32)


def _side(cell: mx.array, geometry: MarchGeometry) -> mx.array:
    """Return the side length of each cell in scene units, shape (cells, 1)."""
    return mx.power(2.0, cascade_of(cell, geometry))[:, None] / geometry.resolution
