"""How far light reaches along rays: how many of a ray's samples it meets before the ray ends.

A ray ends where `composite` ends it: before the first sample that less than 1e-4 of the light
reaches. What is behind needs no colour and has no gradient. To find it the density alone of all
marched samples is evaluated, side by side.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from nerfmac.ops.composite import count_reached
from nerfmac.ops.march import Occupied, march


def reach(
    density: Callable[[mx.array, mx.array], mx.array],
    origins: mx.array,
    directions: mx.array,
    jitter: mx.array,
    occupied: Occupied,
    room: int,
) -> mx.array:
    """(rays,) int32: how many samples each ray has before it ends. Nothing is differentiable.

    Args:
        density: gives (room,) densities at positions (room, 3), of which the first `used` (1,)
            int32 count.
        origins, directions, jitter: as in `march`.
        occupied: the cells that rays are sampled in.
        room: how many samples are evaluated at most. The first ray whose samples do not all fit,
            and those after it, count as reached by light to their last sample.

    Raises:
        InputError: a wrong shape or type.
    """
    marched = march(origins, directions, jitter, occupied.bits, occupied.geometry, room)
    found = density(marched.position, marched.ray_start[-1:])
    reached = count_reached(found, marched.width, marched.ray_start)
    return mx.stop_gradient(mx.where(marched.fits, reached, marched.wanted))
