"""`Viewpoints`: samples and rays for points that are not on a camera ray, such as the points of an
occupancy grid or of a mesh."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common import SCENE_CENTER, Float32Array
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.rays import PIXEL_RADIUS, Rays
from nerfmac.geometry.samples import Samples

AT_ONCE = 8  # Number of cameras whose distances from all points are in memory at the same time.


class Viewpoints(NamedTuple):
    """Training cameras from which points are seen.

    A field may depend on the distance from the camera, the pixel's cone, and the interval of a
    sample. At a point that is not on a camera ray, the field is evaluated as the nearest training
    camera would see it. NumPy arrays can be used on any thread.
    """

    position: Float32Array  # (cameras, 3) camera positions in scene coordinates
    radius: Float32Array  # (cameras,) `Rays.radius` of the central pixel
    step: float  # length of the shortest marching steps, in scene units
    cone: float  # ratio of step length to distance for distant steps
    train_frac: mx.array | float = 1.0  # as in `Rays`

    @classmethod
    def of(cls, cameras: Cameras | None, step: float, cone: float) -> Viewpoints:
        """Create the viewpoints of cameras.

        Args:
            cameras: Training cameras. If None, points are seen from two scene units above the scene
                center, with an infinitely small pixel.
            step: Length of the shortest marching steps, in scene units.
            cone: Ratio of step length to distance for distant steps.

        Returns:
            Viewpoints after training.
        """
        if cameras is None:
            above = np.array([[SCENE_CENTER, SCENE_CENTER, SCENE_CENTER + 2.0]], np.float32)
            return cls(above, np.zeros(1, np.float32), step, cone)
        focal = np.sqrt(np.array(cameras.intrinsics)[:, :2].prod(axis=1))
        return cls(np.array(cameras.poses)[:, :, 3], PIXEL_RADIUS / focal, step, cone)

    def through(self, position: mx.array) -> tuple[Samples, Rays]:
        """Return a sample at each position, on a ray from the nearest camera.

        Args:
            position: (points, 3) float32, scene coordinates.

        Returns:
            Samples, whose intervals are marching steps at their distances, and rays with the view
            `NEW_VIEW`, one for each sample.
        """
        points = position.shape[0]
        eyes, radii = mx.array(self.position), mx.array(self.radius)
        nearest, least = mx.zeros(points, mx.int32), mx.full(points, mx.inf)
        for first in range(0, len(self.position) if points else 0, AT_ONCE):
            some = eyes[first : first + AT_ONCE]
            squares = (mx.square(position[:, axis, None] - some[:, axis]) for axis in range(3))
            away = sum(squares, start=mx.array(0.0))
            is_nearer = away.min(axis=1) < least
            nearest = mx.where(is_nearer, first + away.argmin(axis=1).astype(mx.int32), nearest)
            least = mx.minimum(away.min(axis=1), least)
        offset = position - eyes[nearest]
        distance = mx.linalg.norm(offset, axis=1)
        samples = Samples(
            position=position,
            distance=distance,
            width=mx.maximum(self.cone * distance, self.step),
            ray=mx.arange(points, dtype=mx.int32),
            ray_start=mx.arange(points + 1, dtype=mx.int32),
            wanted=mx.ones(points, mx.int32),
        )
        direction = offset / mx.maximum(distance, 1e-9)[:, None]
        frac = mx.array(self.train_frac) if isinstance(self.train_frac, float) else self.train_frac
        rays = Rays(eyes[nearest], direction, radius=radii[nearest], train_frac=frac)
        return samples, rays.complete
