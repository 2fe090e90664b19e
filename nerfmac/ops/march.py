"""Ray marching through the occupancy grid, to generate packed samples in occupied cells.

Steps near the camera have the length `step`. Beyond the distance step / cone, the step length is
proportional to the distance, like the footprint of a pixel (Müller et al. 2022, appendix E.1). The
number of steps from the ray origin to the distance t is

    n(t) = t / step                                               for t <= step / cone
    n(t) = (1 + log(cone t / step) cone / log(1 + cone)) / cone   beyond

A ray enters the scene cube at the distance `enter`, which is at least the near plane.
Interval k of the ray begins at the step number n(enter) + k, and its sample is at the step number
n(enter) + k + jitter. Marching omits an interval if its sample is in an empty cell or outside the
cube.
"""

from dataclasses import dataclass
from math import ceil, log
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, simd_width, variant
from nerfmac.common.constants import BRICK_CELLS, SCENE_CENTER
from nerfmac.geometry import Bounds, Cells, Samples, from_center, number_of
from nerfmac.ops.operation import operation
from nerfmac.ops.packing import ray_starts

# Number of rays that a simdgroup (on a CPU, a thread) counts alternately; see kernels/march.metal.
_INTERLEAVED = {"one": 1, "two": 2, "four": 4, "eight": 8}

_TAKES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    jitter=(mx.float32, "rays"),
    bits=(mx.uint32, "words"),
)
_RAY_START = Signature(ray_start=(mx.int32, "rays + 1"))
_SETTINGS = Signature(settings=(mx.float32, 7))
_GIVES = Signature(
    positions=(mx.float32, "slots", 3),
    distances=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    ray_of=(mx.int32, "slots"),
)
_COUNT = Kernel(
    "march",
    "march_count",
    Signature(**_TAKES, **_SETTINGS),
    Signature(counts=(mx.int32, "rays")),
)
_WRITE = Kernel(
    "march",
    "march_write",
    Signature(**_TAKES, **_SETTINGS, **_RAY_START, slots=(mx.int32, 1)),
    _GIVES,
)


@dataclass(frozen=True)
class MarchGeometry:
    """Scene cube, resolution of the occupancy grid, and lengths of marching steps.

    All lengths are in scene units.
    """

    bounds: Bounds  # the scene cube
    resolution: int  # number of cells of the occupancy grid along an axis
    near: float  # minimum distance of a sample from the camera
    step: float  # length of the shortest steps
    cone: float  # ratio of step length to distance for distant steps; with 0, all steps are equal

    @property
    def cells(self) -> int:
        """Total number of cells in all cascades."""
        return self.bounds.cascades * self.resolution**3

    @property
    def most_intervals(self) -> int:
        """Maximum number of intervals along a ray, reached on the diagonal of the cube."""
        diagonal = self.bounds.diagonal
        if self.cone * diagonal <= self.step:
            return ceil(diagonal / self.step) + 1
        # Steps are shortest near the camera, so a ray that begins at a corner and follows the
        # diagonal has the most intervals.
        steps = log(self.cone * diagonal / self.step)
        return ceil((1 + steps * self.cone / log(1 + self.cone)) / self.cone) + 1

    def settings(self) -> mx.array:
        """Return the geometry as the array `settings` that kernels read.

        Returns:
            float32 array (7,) with lengths in scene units, the resolution, and the number of
            cascades.
        """
        lengths = (self.bounds.extent, self.near, self.step, self.cone, log(1 + self.cone))
        return mx.array([*lengths, self.resolution, self.bounds.cascades], mx.float32)


class Occupied(NamedTuple):
    """Occupied cells of the scene cube. Marching generates samples only in occupied cells."""

    geometry: MarchGeometry  # scene cube, grid, and steps
    bits: mx.array  # (geometry.cells / BRICK_CELLS,) uint32, one bit per cell


def march(
    origins: mx.array,
    directions: mx.array,
    jitter: mx.array,
    occupied: Occupied,
    slots: int,
    wanted: mx.array | None = None,
) -> Samples:
    """Generate samples along rays in occupied cells. The result is not differentiable.

    Each ray is divided into intervals, beginning where the ray enters the scene cube. Each interval
    has one sample. Samples in empty cells are omitted.

    Args:
        origins: (rays, 3) float32, scene coordinates.
        directions: (rays, 3) float32, unit vectors.
        jitter: (rays,) float32 in [0, 1), position of each ray's samples within their intervals,
            where 0 is the start.
        occupied: Occupied cells, the scene cube, and the marching steps.
        slots: Maximum total number of samples. Slots are assigned to rays in order. If the slots
            are insufficient for all samples of a ray, this ray and all later rays get no samples
            (see `Samples.fits`).
        wanted: (rays,) int32, number of samples to generate from the start of each ray, or None for
            all samples.

    Returns:
        Packed samples. Slots without a sample are zero.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        Three rays cross the unit cube in steps of 1/4, and all cells are occupied. Ray 0 crosses
        the whole cube and has 4 samples. Ray 1 misses the cube. Ray 2 begins at the center of the
        cube and has 2 samples. The samples of ray r are in the slots from `ray_start[r]` to
        `ray_start[r + 1] - 1`. The last 2 of the 8 slots are unused.

        >>> from nerfmac.ops.march import MarchGeometry, Occupied, march
        >>> cube = nerfmac.Bounds(extent=1.0)
        >>> geometry = MarchGeometry(cube, resolution=16, near=0.0, step=0.25, cone=0.0)
        >>> occupied = Occupied(geometry, mx.full(geometry.cells // 32, 2**32 - 1, mx.uint32))
        >>> origins = mx.array([[-1.0, 0.5, 0.5], [-1.0, 2.0, 0.5], [0.5, 0.5, 0.5]])
        >>> directions = mx.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        >>> samples = march(origins, directions, mx.full(3, 0.5), occupied, slots=8)
        >>> samples.ray_start
        array([0, 4, 4, 6], dtype=int32)
        >>> samples.ray.tolist()
        [0, 0, 0, 0, 2, 2, 0, 0]
        >>> samples.distance.tolist()
        [1.125, 1.375, 1.625, 1.875, 0.125, 0.375, 0.0, 0.0]

        With only 5 slots, there are not enough slots for ray 2, so this ray has no samples:

        >>> march(origins, directions, mx.full(3, 0.5), occupied, slots=5).fits
        array([True, True, False], dtype=bool)
    """
    arrays = origins, directions, jitter, occupied
    if wanted is None:
        wanted = count_samples(*arrays)
    ray_start = ray_starts(wanted, slots)
    return write_samples(*arrays, slots, ray_start)._replace(wanted=wanted)


def count_samples(
    origins: mx.array, directions: mx.array, jitter: mx.array, occupied: Occupied
) -> mx.array:
    """Count the samples that `march` would generate on each ray.

    Args:
        origins, directions, jitter, occupied: Arguments of `march`.

    Returns:
        Number of samples of each ray, (rays,) int32, without a limit on the total number.

    Raises:
        InputError: If a shape or type is wrong.
    """
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
    )


def write_samples(
    origins: mx.array,
    directions: mx.array,
    jitter: mx.array,
    occupied: Occupied,
    slots: int,
    ray_start: mx.array,
) -> Samples:
    """Write the samples of rays to the slots given by `ray_start`.

    Args:
        origins, directions, jitter, occupied: Arguments of `march`.
        slots: Number of slots in the result.
        ray_start: (rays + 1,) int32, first slot of each ray, as in `Samples`.

    Returns:
        Packed samples. If a ray has more slots than samples, its last slots are zero.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _RAY_START.check(ray_start, rays=origins.shape[0])
    written = _write(origins, directions, jitter, occupied, slots, ray_start)
    # Gradients are stopped at the results instead of at the reference's arguments. If two calls
    # stopped them at the same rays, mx.compile in MLX 0.32 might lose an array.
    position, distance, width, ray = map(mx.stop_gradient, written)
    return Samples(position, distance, width, ray, ray_start, ray_start[1:] - ray_start[:-1])


def _write_reference(origins, directions, jitter, occupied, slots, ray_start):  # type: ignore[no-untyped-def]
    is_sample, position, distance, width = march_reference(origins, directions, jitter, occupied)
    number = mx.cumsum(is_sample.astype(mx.int32), axis=1) - 1
    own = ray_start[1:, None] - ray_start[:-1, None]
    is_kept = is_sample & (number < own)
    # Samples that are not kept are written to an extra slot that `pack` removes.
    slot = mx.where(is_kept, ray_start[:-1, None] + number, slots).reshape(-1)
    ray = mx.broadcast_to(mx.arange(origins.shape[0])[:, None], is_sample.shape)

    def pack(values: mx.array) -> mx.array:
        flat = values.reshape(slot.shape[0], *values.shape[2:])
        packed = mx.zeros((slots + 1, *flat.shape[1:]), flat.dtype)
        packed[slot] = flat
        return packed[:slots]

    return pack(position), pack(distance), pack(width), pack(ray)


@operation("march", _write_reference)
def _write(origins, directions, jitter, occupied, slots, ray_start):  # type: ignore[no-untyped-def]
    return _WRITE(
        *map(mx.stop_gradient, (origins, directions, jitter)),
        *(occupied.bits, occupied.geometry.settings(), ray_start),
        mx.array([slots], mx.int32),
        grid=(origins.shape[0] * simd_width(), 1, 1),
        slots=slots,
    )


def march_reference(
    origins: mx.array, directions: mx.array, jitter: mx.array, occupied: Occupied
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Generate a sample in every interval of each ray in plain MLX, without packing the samples
    into slots.

    Args:
        origins, directions, jitter, occupied: Arguments of `march`.

    Returns:
        Four arrays: whether each interval has a sample, bool (rays, intervals), and the positions
        (rays, intervals, 3), distances (rays, intervals), and widths (rays, intervals) for all
        intervals, including omitted ones.
    """
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
    """Return whether each position (..., 3), in scene coordinates, is in an occupied cell."""
    cell = cell_of(position, geometry)
    word = bits[mx.maximum(cell, 0) >> 5]
    return (cell >= 0) & ((word >> (cell & 31).astype(mx.uint32)) & 1).astype(mx.bool_)


def cell_of(position: mx.array, geometry: MarchGeometry) -> mx.array:
    """Return the index of the occupancy cell that contains each position (..., 3), int32 (...).

    The index is -1 for positions outside all cascades.
    """
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
