"""Thinning: keep a random subset of the visible samples and prefer samples with large weights.

A sample with the weight weight_i (as in `composite`) is kept with the probability

    p_i = 1, 1/2, 1/4, ..., or 1/32, the smallest value above weight_i / below

A kept sample's contributions to color, depth, and gradients are multiplied by 1 / p_i, so that it
also represents omitted samples. The width of a kept sample does not change. Instead, `Thinning`
stores the optical depth of the omitted samples, so that transmittance and opacity are exact for the
whole ray. If the widths were multiplied by 1 / p_i, transmittance and opacity would be random.
Training with random backgrounds would then build opaque walls in front of cameras to reduce this
noise.

A ray ends where its transmittance falls below the threshold of `composite`. Samples behind the end
are dropped and do not count as omitted samples. The other samples are selected by systematic
sampling: probabilities are added up along the ray, beginning with the ray's offset, and a sample is
kept if its probability increases the integer part of the sum. Probabilities are powers of two, so
that rounding rarely changes the selection.

Colors, depths, and gradients of colors are unbiased, but gradients of density are not. The gradient
of sample i contains a sum over the samples j behind it, and the mean of a kept term has the factor
p_ij / (p_i p_j), where p_ij is the probability that both samples are kept. Systematic sampling
never keeps two samples between which the probabilities add up to less than 1, so the mean gradient
lacks their terms:

    E[d color / d tau_i] = d color / d tau_i + sum_{j>i} (1 - p_ij / (p_i p_j)) weight_j color_j

The weights of these terms add up to about `below`. If `below` is 0.01, the gradient of a squared
error differs by 2.6 % in haze and by 0.3 % in front of a wall, toward less haze.

Most samples of a ray contribute almost no color, because the samples are in thin haze, in front of
a surface, or inside an object. Instant-NGP trains on all of these samples. nerfacc omits all
samples with an opacity below `alpha_thre`. Thinning omits most of these samples, so that a training
step can process more rays with the same number of samples.
"""

from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, simd_width
from nerfmac.common.constants import THINNING_UNITS
from nerfmac.geometry import Samples, Thinning
from nerfmac.ops.composite import sum_before, weights_along
from nerfmac.ops.operation import operation
from nerfmac.ops.packing import ray_starts

_TAKES = Signature(
    density=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    ray_start=(mx.int32, "rays + 1"),
    offsets=(mx.float32, "rays"),
)
_WANTED = Signature(wanted=(mx.int32, "rays"))
_PACKED = Signature(positions=(mx.float32, "slots", 3), distances=(mx.float32, "slots"))
_GIVES = Signature(
    kept_positions=(mx.float32, "kept", 3),
    kept_distances=(mx.float32, "kept"),
    kept_widths=(mx.float32, "kept"),
    ray_of=(mx.int32, "kept"),
    inverse_probability=(mx.float32, "kept"),
    omitted=(mx.float32, "kept"),
    ray_omitted=(mx.float32, "rays"),
)
_BELOW = Signature(below=(mx.float32, 1))
_COUNT = Kernel(
    "thin",
    "thin_count",
    Signature(**_TAKES, **_WANTED, **_BELOW),
    Signature(counts=_WANTED["wanted"], new_wanted=_WANTED["wanted"]),
    rows="offsets_shape[0]",
)
_WRITE = Kernel(
    "thin",
    "thin_write",
    Signature(**_TAKES, **_BELOW, **_PACKED, kept_start=_TAKES["ray_start"], slots=(mx.int32, 1)),
    _GIVES,
    rows="offsets_shape[0]",
)


def thin(
    samples: Samples, density: mx.array, offsets: mx.array, slots: int, below: float
) -> Samples:
    """Keep a random subset of the visible samples. The result is not differentiable.

    Each sample is kept with a probability of 1, 1/2, 1/4, ..., or 1/32: the smallest of these
    values above weight / `below`, where weight is the sample's weight in the color of its ray.
    `composite` corrects the colors, so that their means do not change.

    Args:
        samples: Packed samples. If a ray lacks slots for some of its samples, the result contains
            no samples of this ray.
        density: (slots of `samples`,) float32, not negative.
        offsets: (rays,) float32 in [0, 1), initial value of each ray's sum of probabilities.
        slots: Maximum total number of kept samples. Slots are assigned to rays in order, as in
            `march`.
        below: Weight threshold. Samples with at least this weight are always kept. If the threshold
            is 0, all visible samples are kept.

    Returns:
        Packed samples with the correction `Samples.thinning` for `composite`.

    Raises:
        InputError: If a shape or type is wrong.
    """
    density, width = mx.stop_gradient(density), mx.stop_gradient(samples.width)
    samples = samples._replace(width=width)
    rays = offsets.shape[0]
    _TAKES.check(density, width, samples.ray_start, offsets, rays=rays)
    _WANTED.check(samples.wanted, rays=rays)
    counts, wanted = _count(samples, density, offsets, below)
    kept_start = ray_starts(counts, slots)
    written = _write(samples, density, offsets, kept_start, slots, below)
    position, distance, width, ray, *thinning = map(mx.stop_gradient, written)
    return Samples(position, distance, width, ray, kept_start, wanted, Thinning(*thinning))


def _count_reference(samples, density, offsets, below):  # type: ignore[no-untyped-def]
    counts, rays = mx.zeros_like(samples.wanted), offsets.shape[0]
    if density.shape[0] > 0 and rays > 0:
        choice = _choice(density, samples.width, samples.ray_start, offsets, below)
        counts = counts.at[choice.ray].add(choice.is_kept.astype(mx.int32))
    return counts, mx.where(samples.fits, counts, samples.wanted)


@operation("thin", _count_reference)
def _count(samples, density, offsets, below):  # type: ignore[no-untyped-def]
    """Return the number of kept samples of each ray, (rays,) int32, and `Samples.wanted` of the
    result: the same number, or the number of wanted samples if the ray does not fit."""
    return _COUNT(
        *(density, samples.width, samples.ray_start, offsets, samples.wanted),
        mx.array([below], mx.float32),
        grid=(offsets.shape[0] * simd_width(), 1, 1),
    )


class _Choice(NamedTuple):
    """Thinning decision for each sample. All arrays have the shape (slots,)."""

    ray: mx.array  # int32
    shares: mx.array  # int32, probability in units of 1 / THINNING_UNITS
    is_kept: mx.array  # bool
    omitted: mx.array  # float32, optical depth of the sample if it is visible and not kept


def _choice(
    density: mx.array,
    widths: mx.array,
    ray_start: mx.array,
    offsets: mx.array,
    below: float,
) -> _Choice:
    along = weights_along(density, widths, ray_start)
    shares = mx.where(along.is_visible, THINNING_UNITS, 0)
    for halvings in range(1, THINNING_UNITS.bit_length()):
        is_lighter = along.is_visible & (along.weight < below * 0.5**halvings)
        shares = mx.where(is_lighter, THINNING_UNITS >> halvings, shares)
    first = (offsets * THINNING_UNITS).astype(mx.int32)[along.ray]
    before = first + _count_before(shares, ray_start, along.ray)
    is_kept = (before + shares) // THINNING_UNITS > before // THINNING_UNITS
    omitted = mx.where(along.is_visible & ~is_kept, along.optical, 0.0)
    return _Choice(along.ray, shares, is_kept, omitted)


def _count_before(values: mx.array, ray_start: mx.array, ray: mx.array) -> mx.array:
    """Return, for each slot, the sum of the integers in earlier slots of the same ray."""
    sums = mx.cumsum(values) - values
    return sums - sums[mx.minimum(ray_start[:-1], values.shape[0] - 1)][ray]


def _write_reference(samples, density, offsets, kept_start, slots, below):  # type: ignore[no-untyped-def]
    rays = offsets.shape[0]
    if density.shape[0] == 0 or rays == 0:
        none, ray = mx.zeros(slots), mx.zeros(slots, mx.int32)
        return mx.zeros((slots, 3)), none, none, ray, mx.ones(slots), none, mx.zeros(rays)
    ray_start = samples.ray_start
    choice = _choice(density, samples.width, ray_start, offsets, below)
    ray = choice.ray
    number = _count_before(choice.is_kept.astype(mx.int32), ray_start, ray)
    has_room = choice.is_kept & (number < (kept_start[1:] - kept_start[:-1])[ray])
    # Samples that are not kept are written to an extra slot that `pack` removes.
    slot = mx.where(has_room, kept_start[:-1][ray] + number, slots)

    def pack(values: mx.array, empty: float = 0.0) -> mx.array:
        packed = mx.full((slots + 1, *values.shape[1:]), mx.array(empty, values.dtype))
        packed[slot] = values
        return packed[:slots]

    place = mx.arange(ray.shape[0]) - ray_start[ray]
    packed = map(pack, (samples.position, samples.distance, samples.width, ray))
    inverse_probability = pack(THINNING_UNITS / mx.maximum(choice.shares, 1), 1.0)
    omitted = pack(sum_before(choice.omitted, place))
    ray_omitted = mx.zeros(rays).at[ray].add(choice.omitted)
    return *packed, inverse_probability, omitted, ray_omitted


@operation("thin", _write_reference)
def _write(samples, density, offsets, kept_start, slots, below):  # type: ignore[no-untyped-def]
    packed = samples.position, samples.distance
    _PACKED.check(*packed, slots=density.shape[0])
    return _WRITE(
        *(density, samples.width, samples.ray_start, offsets, mx.array([below], mx.float32)),
        *(*map(mx.stop_gradient, packed), kept_start),
        mx.array([slots], mx.int32),
        grid=(offsets.shape[0] * simd_width(), 1, 1),
        kept=slots,
    )
