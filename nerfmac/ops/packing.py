"""Packing rays' samples into slots: where each ray's begin, and how many slots a ray takes."""

from __future__ import annotations

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel
from nerfmac.ops.signature import Signature

_TAKES = Signature(counts=(mx.int32, "rays"))
_DEMAND_TAKES = Signature(tried=(mx.int32, "rays"), kept=(mx.int32, "rays"))
_STARTS = Kernel(
    "packing",
    "packing_starts",
    inputs=("ends", "slots"),
    outputs=("ray_start",),
    rows="ends_shape[0]",
)
_DEMAND = Kernel(
    "packing",
    "packing_demand",
    inputs=("tried_ends", "kept_ends", "sizes"),
    outputs=("demand",),
    rows="tried_ends_shape[0]",
)


def ray_starts(counts: mx.array, slots: int) -> mx.array:
    """Where each ray's slots begin, as in `Samples`: (rays + 1,) int32.

    Rays get their samples in order. The first ray whose samples do not all fit, and those after
    it, get none.

    Args:
        counts: (rays,) int32, how many samples each ray has.
        slots: how many fit.

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


def demand(tried: mx.array, kept: mx.array, room: int, slots: int) -> mx.array:
    """How many of the `slots` a ray takes, in the mean, so that both kinds of samples fit.

    `tried` and `kept` are (rays,) int32, each ray's samples of which there is room for `room` and
    for `slots`. The means are over the rays that begin in the room, which no ray past it can spoil.
    Gives () float32; 0 if there are no rays. Raises `InputError` for a wrong shape or type.
    """
    rays = _DEMAND_TAKES.check(tried, kept)["rays"]
    if rays == 0:
        return mx.array(0.0)
    ends = mx.cumsum(tried), mx.cumsum(kept)
    if not runs_kernel("packing"):
        begun = mx.minimum((ends[0] <= room).sum() + 1, rays)
        kept_ends, tried_ends = (each[begun - 1].astype(mx.float32) for each in reversed(ends))
        return mx.maximum(kept_ends, tried_ends * (slots / room)) / begun
    (needed,) = _DEMAND(
        *ends,
        mx.array([room, slots], mx.int32),
        grid=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[mx.float32],
    )
    return needed.reshape(())
