"""A ball with a closed-form image, and the values of its frames."""

import mlx.core as mx
import numpy as np

from nerfmac.app.video.frames import FrameRenderer
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry import Camera, Lens
from tests.app.viewer.analytic import Egg

CENTER, RADIUS = np.array([0.55, 0.45, 0.6]), 0.22
LENS = Lens(40, 30, 62.0, 58.0, 21.0, 14.0)
FRONT = Camera.look_at((0.3, 2.0, 0.9), (0.5, 0.5, 0.5), (0.1, 0.0, 1.0), LENS)
SIDE = Camera.look_at((-1.1, 0.2, 0.8), (0.5, 0.5, 0.5), (0.0, 0.3, 1.0), LENS)


class Ball(Egg):
    """A ball with a sharp edge and the colors of the egg."""

    def density_at(self, _, position):
        away = mx.linalg.norm(position - mx.array(CENTER, mx.float32), axis=-1)
        return 2e3 * mx.sigmoid(2e3 * (RADIUS - away))


def hits(origin, direction) -> np.ndarray:
    """Return distances (h, w) to the ball; infinite where rays miss it, NaN at its edge."""
    offset = origin - CENTER
    along = direction @ offset
    inside = along**2 - offset @ offset + RADIUS**2
    distance = -along - np.sqrt(np.maximum(inside, 0.0))
    beside = (inside < -4e-3) | (along > 0.0)
    return np.where(beside, np.inf, np.where(inside > 4e-3, distance, np.nan))


def values_of(run, camera=FRONT, **shot):
    """Return the `FrameValues` of a camera, or of the cameras of one frame."""
    frame = [camera] if isinstance(camera, Camera) else camera
    return next(FrameRenderer(run, RenderOptions(**shot)).values([frame]))
