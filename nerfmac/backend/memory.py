"""How much of the current device's memory MLX may take."""

from __future__ import annotations

import mlx.core as mx

from nerfmac.backend.device import memory_bytes
from nerfmac.common import checks
from nerfmac.common.checks import InputError

GIB = 2**30

CACHED = 1 / 4
"""The part of the memory in which MLX may keep what is free for its next arrays. By default it may
keep it all, and on a Mac other programs want some."""


def check_memory_limit(gib: float | None, fraction: float | None) -> None:
    """Raise `InputError` for what `limit_memory` does not take: both, or one out of range."""
    if gib is not None and fraction is not None:
        raise InputError("both a memory limit and a fraction are given; expected one of them")
    if fraction is not None:
        checks.number("memory fraction", fraction, low=0.01, high=1.0)
    if gib is not None:
        checks.number("memory limit", gib, low=0.01)


def limit_memory(gib: float | None = None, fraction: float | None = None) -> int:
    """Let MLX take `gib` 2^30 bytes, or a `fraction` of the device's memory; return it in bytes.

    Without either it may take all that is left now. Raises `InputError`, see `check_memory_limit`.
    """
    check_memory_limit(gib, fraction)
    limit = most = memory_bytes()
    if fraction is not None:
        limit = int(fraction * most)
    if gib is not None:
        limit = min(int(gib * GIB), most)
    mx.set_memory_limit(limit)
    mx.set_cache_limit(int(CACHED * limit))
    return limit


def active_memory_bytes() -> int:
    """What MLX's arrays take now, in bytes."""
    return int(mx.get_active_memory())
