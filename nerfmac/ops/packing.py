"""Packing of samples into slots: the first slot of each ray, which rays fit, and the mean number of
slots per ray."""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.ops.operation import operation

_TAKES = Signature(counts=(mx.int32, "rays"))
_PER_RAY_TAKES = Signature(marched=(mx.int32, "rays"), kept=(mx.int32, "rays"))
_FITS_TAKES = Signature(ray_start=(mx.int32, "rays + 1"), wanted=(mx.int32, "rays"))
_STARTS = Kernel(
    "packing",
    "packing_starts",
    Signature(ends=_TAKES["counts"], slots=(mx.int32, 1)),
    Signature(ray_start=_FITS_TAKES["ray_start"]),
)
_FITS = Kernel(
    "packing",
    "packing_fits",
    _FITS_TAKES,
    Signature(fits=(mx.float32, "rays")),
    rows="wanted_shape[0]",
)
_PER_RAY = Kernel(
    "packing",
    "packing_samples_per_ray",
    Signature(marched_ends=_TAKES["counts"], kept_ends=_TAKES["counts"], sizes=(mx.int32, 2)),
    Signature(samples_per_ray=(mx.float32, 1)),
)


def ray_starts(counts: mx.array, slots: int) -> mx.array:
    """Return the first slot of each ray, as in `Samples`.

    Slots are assigned to rays in order. If the slots are insufficient for all samples of a ray,
    this ray and all later rays get no slots.

    Args:
        counts: (rays,) int32, number of samples of each ray.
        slots: Total number of slots.

    Returns:
        int32 array (rays + 1,): the first slot of each ray, followed by the number of slots in use.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _TAKES.check(counts)
    return _starts(counts, slots)


def _starts_reference(counts: mx.array, slots: int) -> mx.array:
    kept = mx.where(mx.cumsum(counts) <= slots, counts, 0)
    return mx.concatenate([mx.array([0], mx.int32), mx.cumsum(kept)])


@operation("packing", _starts_reference)
def _starts(counts: mx.array, slots: int) -> list[mx.array]:
    ends = mx.cumsum(counts)
    return _STARTS(ends, mx.array([slots], mx.int32), grid=(counts.shape[0] + 1, 1, 1))


def fits_mask(ray_start: mx.array, wanted: mx.array) -> mx.array:
    """Return 1 for each ray that fits (see `Samples.fits`), and 0 for the other rays.

    Args:
        ray_start: (rays + 1,) int32, as in `Samples`.
        wanted: (rays,) int32, as in `Samples`.

    Returns:
        float32 array (rays,).

    Raises:
        InputError: If a shape or type is wrong.
    """
    _FITS_TAKES.check(ray_start, wanted, rays=wanted.shape[0])
    return _fits(ray_start, wanted)


def _fits_reference(ray_start: mx.array, wanted: mx.array) -> mx.array:
    return (ray_start[1:] - ray_start[:-1] == wanted).astype(mx.float32)


@operation("packing", _fits_reference)
def _fits(ray_start: mx.array, wanted: mx.array) -> list[mx.array]:
    return _FITS(ray_start, wanted, grid=(wanted.shape[0], 1, 1))


def samples_per_ray(marched: mx.array, kept: mx.array, capacity: int, slots: int) -> mx.array:
    """Return the mean number of slots per ray, which determines the number of rays in later steps.

    With at most slots / result rays, the expected numbers of marched samples and of samples after
    thinning are within their limits. The result is

        max(mean(kept), mean(marched) slots / capacity)

    Rays with a first sample beyond `capacity` were not evaluated, so the means do not include them.

    Args:
        marched: (rays,) int32, number of marched samples of each ray.
        kept: (rays,) int32, number of samples of each ray after thinning.
        capacity: Maximum total number of marched samples.
        slots: Maximum total number of samples after thinning.

    Returns:
        Mean number of slots per ray, a float32 scalar. If there are no rays, the result is 0.

    Raises:
        InputError: If a shape or type is wrong.
    """
    rays = _PER_RAY_TAKES.check(marched, kept)["rays"]
    if rays == 0:
        return mx.array(0.0)
    return _per_ray(mx.cumsum(marched), mx.cumsum(kept), capacity, slots).reshape(())


def _per_ray_reference(
    marched_ends: mx.array, kept_ends: mx.array, capacity: int, slots: int
) -> mx.array:
    begun = mx.minimum((marched_ends <= capacity).sum() + 1, marched_ends.shape[0])
    marched, kept = (end[begun - 1].astype(mx.float32) for end in (marched_ends, kept_ends))
    return mx.maximum(kept, marched * (slots / capacity)) / begun


@operation("packing", _per_ray_reference)
def _per_ray(
    marched_ends: mx.array, kept_ends: mx.array, capacity: int, slots: int
) -> list[mx.array]:
    sizes = mx.array([capacity, slots], mx.int32)
    return _PER_RAY(marched_ends, kept_ends, sizes, grid=(1, 1, 1))
