"""How far light reaches along rays: how many of a ray's samples it meets before the ray ends."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from nerfmac.ops.composite import count_reached
from nerfmac.ops.march import Occupied, march


def reach_by(
    density: Callable[[mx.array, mx.array], mx.array],
    origins: mx.array,
    directions: mx.array,
    jitter: mx.array,
    occupied: Occupied,
    room: int,
) -> mx.array:
    """(rays,) int32: how many samples in `occupied` space each ray has before it ends.

    Args:
        density: gives (room,) densities at positions (room, 3), of which the first `used` (1,)
            int32 count.
        origins, directions, jitter: as in `march`.
        occupied: the cells that rays are sampled in.
        room: how many samples can be evaluated. Of rays whose samples do not fit, all are counted.
    """
    marched = march(origins, directions, jitter, occupied.bits, occupied.geometry, room)
    found = density(marched.position, marched.ray_start[-1:])
    reached = count_reached(found, marched.width, marched.ray_start)
    return mx.stop_gradient(mx.where(marched.fits, reached, marched.wanted))
