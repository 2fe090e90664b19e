"""Marching rays through the occupancy grid: packed samples in occupied cells, in fixed slots.

Steps near the camera have the length `step`. Beyond the distance step / cone they grow in
proportion to the distance, as a pixel's footprint does (Müller et al. 2022, appendix E.1). The
number of steps up to the distance t is

    n(t) = t / step                                               for t <= step / cone
    n(t) = (1 + log(cone t / step) cone / log(1 + cone)) / cone   beyond

Interval k of a ray begins at n(enter) + k, where the ray enters the cube at the distance `enter`,
at least `near`. Its sample is at the fraction `jitter` of the interval. Intervals are omitted if
their sample is in an empty cell or outside the cube.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import Kernel, simd_width, variant
from nerfmac.common.constants import BRICK_CELLS, SCENE_CENTER
from nerfmac.geometry.bounds import Bounds, from_center
from nerfmac.geometry.cells import Cells, number_of
from nerfmac.geometry.samples import Samples
from nerfmac.ops.operation import operation
from nerfmac.ops.packing import ray_starts
from nerfmac.ops.signature import Signature

# Rays that a simdgroup counts in alternation, see kernels/march.metal; on a CPU that is a thread.
_INTERLEAVED = {"one": 1, "two": 2, "four": 4, "eight": 8}

_TAKES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    jitter=(mx.float32, "rays"),
    bits=(mx.uint32, "words"),
)
_SLOTS_OF_RAYS = Signature(ray_start=(mx.int32, "rays + 1"), skip=(mx.int32, "rays"))
_GIVES = Signature(
    positions=(mx.float32, "slots", 3),
    distances=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    ray_of=(mx.int32, "slots"),
)
_INPUTS = (*_TAKES.names, "settings")
_COUNT = Kernel("march", "march_count", _INPUTS, ("counts",), rows="origins_shape[0]")
_WRITE = Kernel(
    "march",
    "march_write",
    inputs=(*_INPUTS, *_SLOTS_OF_RAYS.names, "slots"),
    outputs=_GIVES.names,
    rows="origins_shape[0]",
)


@dataclass(frozen=True)
class MarchGeometry:
    """The scene's cube, the occupancy grid and the steps; lengths in scene units."""

    bounds: Bounds
    resolution: int  # cells of the occupancy grid along an axis
    near: float  # smallest distance of a sample from the camera
    step: float  # length of the shortest steps
    cone: float  # ratio of step length to distance, far away; 0: all steps are equal

    @property
    def cells(self) -> int:
        """Number of cells in all cascades together."""
        return self.bounds.cascades * self.resolution**3

    @property
    def most_intervals(self) -> int:
        """Upper bound of a ray's number of intervals: those along the cube's diagonal."""
        diagonal = self.bounds.diagonal
        if self.cone * diagonal <= self.step:
            return ceil(diagonal / self.step) + 1
        # Steps are shortest at the camera, so a diagonal that begins there has most intervals.
        steps = log(self.cone * diagonal / self.step)
        return ceil((1 + steps * self.cone / log(1 + self.cone)) / self.cone) + 1

    def settings(self) -> mx.array:
        """The kernels' input `settings` (7,) float32: lengths, resolution and cascades."""
        lengths = (self.bounds.extent, self.near, self.step, self.cone, log(1 + self.cone))
        return mx.array([*lengths, self.resolution, self.bounds.cascades], mx.float32)


class Occupied(NamedTuple):
    """Cells of the scene cube that marching samples."""

    geometry: MarchGeometry
    bits: mx.array  # (geometry.cells / BRICK_CELLS,) uint32, one bit a cell, by its number


def march(
    origins: mx.array,
    directions: mx.array,
    jitter: mx.array,
    occupied: Occupied,
    slots: int,
    wanted: mx.array | None = None,
) -> Samples:
    """Sample rays in occupied cells. Nothing here is differentiable.

    Args:
        origins: (rays, 3) float32, scene coordinates.
        directions: (rays, 3) float32, unit.
        jitter: (rays,) float32 in [0, 1), position of each sample within its interval.
        occupied: Occupied cells, the scene cube, and the marching steps.
        slots: Number of samples that fit. Rays get their samples in order. If the samples of a ray
            do not all fit, this ray and all later rays get none (`Samples.fits`).
        wanted: (rays,) int32, number of samples to use from each ray, from the first on; None: all.

    Raises:
        InputError: If a shape or type is wrong.
    """
    arrays = origins, directions, jitter, occupied
    if wanted is None:
        wanted = count_samples(*arrays)
    skip = mx.array(np.zeros(wanted.shape[0], np.int32))  # a constant, so that no step computes it
    ray_start = ray_starts(wanted, slots)
    return write_samples(*arrays, slots, ray_start, skip)._replace(wanted=wanted)


def count_samples(
    origins: mx.array, directions: mx.array, jitter: mx.array, occupied: Occupied
) -> mx.array:
    """Number of samples of each ray in occupied cells, (rays,) int32; arguments as in `march`."""
    geometry, bits = occupied
    _TAKES.check(origins, directions, jitter, bits, words=geometry.cells // BRICK_CELLS)
    return _count(origins, directions, jitter, occupied)


def _count_reference(
    origins: mx.array, directions: mx.array, jitter: mx.array, occupied: Occupied
) -> mx.array:
    return march_reference(origins, directions, jitter, occupied)[0].sum(axis=1)


@operation("march", _count_reference)
def _count(
    origins: mx.array, directions: mx.array, jitter: mx.array, occupied: Occupied
) -> list[mx.array]:
    rays, interleaved = origins.shape[0], _INTERLEAVED[variant("march_count")]
    return _COUNT(
        *map(mx.stop_gradient, (origins, directions, jitter)),
        *(occupied.bits, occupied.geometry.settings()),
        grid=(-(-rays // interleaved) * simd_width(), 1, 1),
        template=[("INTERLEAVED", interleaved)],
        output_shapes=[(rays,)],
        output_dtypes=[mx.int32],
    )


def write_samples(
    origins: mx.array,
    directions: mx.array,
    jitter: mx.array,
    occupied: Occupied,
    slots: int,
    ray_start: mx.array,
    skip: mx.array,
) -> Samples:
    """Fill each ray's slots with its samples from number `skip` on.

    `ray_start` (rays + 1,) int32 is as in `Samples`, `skip` is (rays,) int32. Slots that a ray has
    no samples for are zero. Other arguments are as in `march`.
    """
    rays = origins.shape[0]
    _SLOTS_OF_RAYS.check(ray_start, skip, **{"rays": rays, "rays + 1": rays + 1})
    written = _write(origins, directions, jitter, occupied, slots, ray_start, skip)
    # Gradients are stopped at the results, since the reference does not stop them at its arguments:
    # if two calls do that for the same rays, mx.compile in MLX 0.32 may lose an array.
    position, distance, width, ray = map(mx.stop_gradient, written)
    return Samples(position, distance, width, ray, ray_start, ray_start[1:] - ray_start[:-1])


def _write_reference(origins, directions, jitter, occupied, slots, ray_start, skip):  # type: ignore[no-untyped-def]
    is_sample, position, distance, width = march_reference(origins, directions, jitter, occupied)
    number = mx.cumsum(is_sample.astype(mx.int32), axis=1) - 1 - skip[:, None]
    own = ray_start[1:, None] - ray_start[:-1, None]
    is_kept = is_sample & (number >= 0) & (number < own)
    # Samples that are not kept are written to one extra slot, and it is removed afterwards.
    slot = mx.where(is_kept, ray_start[:-1, None] + number, slots).reshape(-1)
    ray = mx.broadcast_to(mx.arange(origins.shape[0])[:, None], is_sample.shape)

    def pack(values: mx.array) -> mx.array:
        flat = values.reshape(slot.shape[0], *values.shape[2:])
        packed = mx.zeros((slots + 1, *flat.shape[1:]), flat.dtype)
        packed[slot] = flat
        return packed[:slots]

    return pack(position), pack(distance), pack(width), pack(ray)


@operation("march", _write_reference)
def _write(origins, directions, jitter, occupied, slots, ray_start, skip):  # type: ignore[no-untyped-def]
    return _WRITE(
        *map(mx.stop_gradient, (origins, directions, jitter)),
        *(occupied.bits, occupied.geometry.settings(), ray_start, skip),
        mx.array([slots], mx.int32),
        grid=(origins.shape[0] * simd_width(), 1, 1),
        **_GIVES.outputs(slots=slots),
    )


def march_reference(
    origins: mx.array, directions: mx.array, jitter: mx.array, occupied: Occupied
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Whether each interval (rays, intervals) has a sample; position, distance and width of all."""
    geometry = occupied.geometry
    enter, leave = geometry.bounds.crossing(origins, directions, geometry.near)
    first = _number(enter, geometry)
    length = _number(leave, geometry) - first
    intervals = mx.where(leave > enter, mx.ceil(length - jitter), 0.0)
    k = mx.arange(geometry.most_intervals).astype(mx.float32)
    begin = first[:, None] + k[None]
    distance = _distance(begin + jitter[:, None], geometry)
    width = _distance(begin + 1.0, geometry) - _distance(begin, geometry)
    position = origins[:, None] + directions[:, None] * distance[:, :, None]
    is_sample = (k[None] < intervals[:, None]) & is_occupied(position, occupied.bits, geometry)
    return is_sample, position, distance, width


def is_occupied(position: mx.array, bits: mx.array, geometry: MarchGeometry) -> mx.array:
    """Whether each position (..., 3), in scene coordinates, is in an occupied cell."""
    cell = cell_of(position, geometry)
    word = bits[mx.maximum(cell, 0) >> 5]
    return (cell >= 0) & ((word >> (cell & 31).astype(mx.uint32)) & 1).astype(mx.bool_)


def cell_of(position: mx.array, geometry: MarchGeometry) -> mx.array:
    """The occupancy cell of each position (..., 3): (...) int32, -1 outside every cascade."""
    resolution, cascades = geometry.resolution, geometry.bounds.cascades
    sizes = mx.array([2.0**c for c in range(cascades)])
    cascade = (from_center(position)[..., None] >= 0.5 * sizes).astype(mx.int32).sum(axis=-1)
    size = mx.power(2.0, cascade)[..., None]
    index = (position - SCENE_CENTER + 0.5 * size) * (resolution / size)
    index = mx.clip(index.astype(mx.int32), 0, resolution - 1)
    cells = Cells(cascade, index[..., 0], index[..., 1], index[..., 2])
    return mx.where(cascade < cascades, number_of(cells, resolution), -1)


def _number(distance: mx.array, geometry: MarchGeometry) -> mx.array:
    step, cone = geometry.step, geometry.cone
    if cone == 0:
        return distance / step
    far = (1.0 + mx.log(mx.maximum(cone * distance / step, 1.0)) * (cone / log(1 + cone))) / cone
    return mx.where(cone * distance <= step, distance / step, far)


def _distance(number: mx.array, geometry: MarchGeometry) -> mx.array:
    step, cone = geometry.step, geometry.cone
    if cone == 0:
        return number * step
    far = step / cone * mx.exp((cone * number - 1.0) * (log(1 + cone) / cone))
    return mx.where(cone * number <= 1.0, number * step, far)
