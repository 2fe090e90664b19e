"""`training_rays`: random rays of the training cameras."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.rays import Rays, rays_through


def training_rays(cameras: Sequence[Camera], count: int, random: np.random.Generator) -> Rays:
    """`count` rays, each through a random place in the picture of a random camera."""
    view = random.integers(0, len(cameras), count, np.int32)
    sizes = np.array([(camera.lens.width, camera.lens.height) for camera in cameras])
    pixel = random.random((count, 2)) * sizes[view]
    return rays_through(Cameras.stack(cameras), mx.array(view), mx.array(pixel, mx.float32))
