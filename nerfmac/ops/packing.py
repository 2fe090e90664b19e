"""Packing rays' samples into slots: where each ray's slots begin, and how many slots a ray uses."""

from __future__ import annotations

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel
from nerfmac.ops.signature import Signature

_TAKES = Signature(counts=(mx.int32, "rays"))
_PER_RAY_TAKES = Signature(marched=(mx.int32, "rays"), kept=(mx.int32, "rays"))
_STARTS = Kernel(
    "packing", "packing_starts", ("ends", "slots"), ("ray_start",), rows="ends_shape[0]"
)
_PER_RAY = Kernel(
    "packing",
    "packing_samples_per_ray",
    inputs=("marched_ends", "kept_ends", "sizes"),
    outputs=("samples_per_ray",),
    rows="marched_ends_shape[0]",
)


def ray_starts(counts: mx.array, slots: int) -> mx.array:
    """First slot of each ray, as in `Samples`: (rays + 1,) int32.

    Rays get their samples in order. The first ray whose samples do not all fit, and those after
    it, get none.

    Args:
        counts: (rays,) int32, number of samples of each ray.
        slots: number of samples that fit.

    Raises:
        InputError: a wrong shape or type.
    """
    rays = _TAKES.check(counts)["rays"]
    if not runs_kernel("packing"):
        kept = mx.where(mx.cumsum(counts) <= slots, counts, 0)
        return mx.concatenate([mx.array([0], mx.int32), mx.cumsum(kept)])
    (ray_start,) = _STARTS(
        mx.cumsum(counts),
        mx.array([slots], mx.int32),
        grid=(rays + 1, 1, 1),
        output_shapes=[(rays + 1,)],
        output_dtypes=[mx.int32],
    )
    return ray_start


def samples_per_ray(marched: mx.array, kept: mx.array, capacity: int, slots: int) -> mx.array:
    """Mean number of slots that one ray uses, where both marched and kept samples must fit.

    `marched` and `kept` are (rays,) int32, the samples of each ray; `capacity` marched samples fit,
    and `slots` kept ones. The result is () float32:

        max(mean(kept), mean(marched) slots / capacity)

    over the rays that begin within the capacity, since later ones were not evaluated. 0 without
    rays. Raises `InputError` for a wrong shape or type.
    """
    rays = _PER_RAY_TAKES.check(marched, kept)["rays"]
    if rays == 0:
        return mx.array(0.0)
    ends = mx.cumsum(marched), mx.cumsum(kept)
    if not runs_kernel("packing"):
        begun = mx.minimum((ends[0] <= capacity).sum() + 1, rays)
        marched_end, kept_end = (end[begun - 1].astype(mx.float32) for end in ends)
        return mx.maximum(kept_end, marched_end * (slots / capacity)) / begun
    (mean,) = _PER_RAY(
        *ends,
        mx.array([capacity, slots], mx.int32),
        grid=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[mx.float32],
    )
    return mean.reshape(())
