"""Thinning packed samples: of those that light reaches, keep the ones that carry a ray's colour.

A sample of a weight (as in `composite`) is kept with the chance

    chance_i = 1, 1/2, 1/4, ..., 1/32, the smallest above weight_i / below

and then stands for an interval 1 / chance_i times as long, so that the expected optical depth of a
ray stays what it was. Samples behind a ray's end are left out. The chances along a ray are summed;
a sample is kept where the sum passes a whole number, beginning at the ray's offset (systematic
sampling). Chances are powers of two, so that rounding hardly ever changes which samples are kept.

Most samples of a ray carry next to no colour: those in thin fog, before a surface and within it.
Instant-NGP learns from all of them, nerfacc from none below its `alpha_thre`. Kept in part they
still learn, and a step's sample budget holds more rays.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel, simd_width
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import light_along
from nerfmac.ops.packing import ray_starts
from nerfmac.ops.signature import Signature

WHOLE = 32
"""The integer for a chance of 1; the same number as in `kernels/thin.metal`."""

_TAKES = Signature(
    density=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    ray_start=(mx.int32, "rays + 1"),
    offsets=(mx.float32, "rays"),
)
_PACKED = Signature(positions=(mx.float32, "slots", 3), distances=(mx.float32, "slots"))
_GIVES = Signature(
    kept_positions=(mx.float32, "kept", 3),
    kept_distances=(mx.float32, "kept"),
    kept_widths=(mx.float32, "kept"),
    ray_of=(mx.int32, "kept"),
)
_COUNT = Kernel(
    "thin",
    "thin_count",
    inputs=(*_TAKES.names, "below"),
    outputs=("counts",),
    rows="offsets_shape[0]",
)
_WRITE = Kernel(
    "thin",
    "thin_write",
    inputs=(*_TAKES.names, "below", *_PACKED.names, "kept_start", "slots"),
    outputs=_GIVES.names,
    rows="offsets_shape[0]",
)


def thin(
    samples: Samples, density: mx.array, offsets: mx.array, slots: int, below: float
) -> Samples:
    """The samples that are kept, packed anew in `slots` slots. Nothing here is differentiable.

    Args:
        samples: packed samples. A ray that does not fit there keeps none, and does not fit.
        density: (slots of `samples`,) float32, not negative.
        offsets: (rays,) float32 in [0, 1), where each ray's sum of chances begins.
        slots: number of samples that fit. Rays get theirs in order, as in `march`.
        below: weight from which on every sample is kept; 0: all that light reaches are.

    Raises:
        InputError: a wrong shape or type.
    """
    density, width = mx.stop_gradient(density), mx.stop_gradient(samples.width)
    samples = samples._replace(width=width)
    counts = count_kept(density, width, samples.ray_start, offsets, below)
    kept_start = ray_starts(counts, slots)
    write: Any = _write if runs_kernel("thin") else _write_reference
    written = write(samples, density, offsets, kept_start, slots, below)
    position, distance, width, ray = map(mx.stop_gradient, written)
    wanted = mx.where(samples.fits, counts, samples.wanted)
    return Samples(position, distance, width, ray, kept_start, wanted)


def count_kept(
    density: mx.array,
    widths: mx.array,
    ray_start: mx.array,
    offsets: mx.array,
    below: float,
) -> mx.array:
    """Number of samples that each ray keeps, (rays,) int32; arguments as in `thin`, `composite`.

    With `below` 0 it is the number of samples before the ray ends. Raises `InputError` for a
    wrong shape or type.
    """
    rays = offsets.shape[0]
    _TAKES.check(density, widths, ray_start, offsets, **{"rays": rays, "rays + 1": rays + 1})
    density, widths = mx.stop_gradient(density), mx.stop_gradient(widths)
    if not runs_kernel("thin"):
        return count_kept_reference(density, widths, ray_start, offsets, below)
    (counts,) = _COUNT(
        *(density, widths, ray_start, offsets, mx.array([below], mx.float32)),
        grid=(rays * simd_width(), 1, 1),
        output_shapes=[(rays,)],
        output_dtypes=[mx.int32],
    )
    return counts


def count_kept_reference(
    density: mx.array,
    widths: mx.array,
    ray_start: mx.array,
    offsets: mx.array,
    below: float,
) -> mx.array:
    """Plain-MLX reference of `count_kept`, with its arguments and result."""
    rays = offsets.shape[0]
    if density.shape[0] == 0 or rays == 0:
        return mx.zeros(rays, mx.int32)
    ray, _, is_kept = _chances(density, widths, ray_start, offsets, below)
    return mx.zeros(rays, mx.int32).at[ray].add(is_kept.astype(mx.int32))


def _chances(
    density: mx.array,
    widths: mx.array,
    ray_start: mx.array,
    offsets: mx.array,
    below: float,
) -> tuple[mx.array, mx.array, mx.array]:
    """Three arrays (slots,): the slot's ray, its chance in units of 1 / `WHOLE`, whether kept."""
    ray, is_visible, weight = light_along(density, widths, ray_start)
    shares = mx.where(is_visible, WHOLE, 0)
    for halvings in range(1, WHOLE.bit_length()):
        is_lighter = is_visible & (weight < below * 0.5**halvings)
        shares = mx.where(is_lighter, WHOLE >> halvings, shares)
    sums = mx.cumsum(shares) - shares
    first = mx.minimum(ray_start[:-1], shares.shape[0] - 1)
    before = sums - sums[first][ray] + (offsets * WHOLE).astype(mx.int32)[ray]
    return ray, shares, (before + shares) // WHOLE > before // WHOLE


def _write(samples, density, offsets, kept_start, slots, below):  # type: ignore[no-untyped-def]
    packed = samples.position, samples.distance
    _PACKED.check(*packed, slots=density.shape[0])
    return _WRITE(
        *(density, samples.width, samples.ray_start, offsets, mx.array([below], mx.float32)),
        *(*map(mx.stop_gradient, packed), kept_start),
        mx.array([slots], mx.int32),
        grid=(offsets.shape[0] * simd_width(), 1, 1),
        **_GIVES.outputs(kept=slots),
    )


def _write_reference(samples, density, offsets, kept_start, slots, below):  # type: ignore[no-untyped-def]
    if density.shape[0] == 0 or offsets.shape[0] == 0:
        return mx.zeros((slots, 3)), mx.zeros(slots), mx.zeros(slots), mx.zeros(slots, mx.int32)
    along = density, samples.width, samples.ray_start, offsets
    ray, shares, is_kept = _chances(*along, below)
    kept = is_kept.astype(mx.int32)
    number = mx.cumsum(kept) - kept
    number = number - number[mx.minimum(samples.ray_start[:-1], kept.shape[0] - 1)][ray]
    has_room = is_kept & (number < (kept_start[1:] - kept_start[:-1])[ray])
    # Samples that are not kept go to one extra slot, which is cut off afterwards.
    slot = mx.where(has_room, kept_start[:-1][ray] + number, slots)
    width = samples.width * (WHOLE / mx.maximum(shares, 1))

    def pack(values: mx.array) -> mx.array:
        packed = mx.zeros((slots + 1, *values.shape[1:]), values.dtype)
        packed[slot] = values
        return packed[:slots]

    return pack(samples.position), pack(samples.distance), pack(width), pack(ray)
