"""Measurement of the PSNR of a few held-out views during training. The PSNR is measured more often
at the beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, sqrt

import mlx.core as mx
import numpy as np

from nerfmac.app.run import Run
from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device
from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.color import over
from nerfmac.rendering.evaluation import BACKGROUNDS
from nerfmac.rendering.metrics import psnr
from nerfmac.rendering.renderer import FloatImage
from nerfmac.training.goal import Goal, Report

BACKGROUND = BACKGROUNDS["white"]  # sRGB color behind renderings and photos
VIEW_PIXELS = {"cpu": 2**12}
"""Maximum number of pixels to evaluate per view, keyed by device. On other devices, all pixels are
evaluated. On a CPU, rendering whole images with the vanilla model would take longer than the
training."""


class HeldOutViews:
    """Evenly spaced test views of a scene, in host memory, for measuring PSNR during training."""

    def __init__(
        self, scene: Scene, count: int, blend: str, *, most_pixels: int | None = None
    ) -> None:
        """Select at most `count` evenly spaced views, and the pixels of each view.

        `blend` is the color space of blending, as in the setting `train.blend`. If a view has more
        than `most_pixels` pixels (default: `VIEW_PIXELS`), every nth pixel of every nth row is
        used.
        """
        checks.number("test_views", count, low=1, whole=True)
        most_pixels = most_pixels or VIEW_PIXELS.get(current_device())
        views = scene.views("test")
        self.names: list[str] = []
        self.cameras: list[Camera] = []
        self._photos: list[FloatImage] = []
        for index in map(int, np.unique(np.linspace(0, len(views.names) - 1, count).astype(int))):
            photo = views.image(index).astype(mx.float32) / 255.0
            if photo.shape[2] == 4:
                photo = over(photo, mx.array(BACKGROUND), blend)
            camera, step = views.cameras[index], 1
            if most_pixels:
                step = ceil(sqrt(camera.lens.width * camera.lens.height / most_pixels))
            self.names.append(views.names[index])
            self.cameras.append(every_nth_pixel(camera, step))
            self._photos.append(np.array(photo)[step // 2 :: step, step // 2 :: step])

    def psnr(self, render: Callable[[Camera], FloatImage]) -> float:
        """Return the mean PSNR in dB of `render`, which renders sRGB images (h, w, 3) in [0, 1]."""
        pairs = zip(self.cameras, self._photos, strict=True)
        return float(np.mean([psnr(render(camera), photo) for camera, photo in pairs]))

    def psnr_of(self, run: Run) -> float:
        """Return the mean PSNR in dB of a run in its current state."""
        return self.psnr(lambda camera: run.renderer().render(camera, BACKGROUND).color)


def evaluation_times(seconds: float, points: int) -> list[float]:
    """Return the training times seconds * (i / points)^2 for i = 1, ..., points.

    Evaluations are more frequent at the beginning, when the quality changes fastest.
    """
    return [seconds * (index / points) ** 2 for index in range(1, points + 1)]


def followed(run: Run, goal: Goal, points: int) -> Iterator[tuple[Report, bool]]:
    """Train a run until a `goal` with a training time is reached, and yield each report with a
    flag: whether one of the `evaluation_times` has passed since the previous report."""
    times = evaluation_times(goal.seconds or 0.0, points)
    for report in run.fit(goal):
        now = run.state.train_seconds
        later = [moment for moment in times if moment > now]
        yield report, len(later) < len(times)
        times = later


def every_nth_pixel(camera: Camera, step: int) -> Camera:
    """Return a camera for every `step`-th row and column. Its pixel (x, y) has the same ray as
    pixel (step x + step // 2, step y + step // 2) of `camera`."""
    lens, first = camera.lens, step // 2
    smaller = replace(
        lens,
        width=len(range(first, lens.width, step)),
        height=len(range(first, lens.height, step)),
        fl_x=lens.fl_x / step,
        fl_y=lens.fl_y / step,
        cx=(lens.cx - first - 0.5) / step + 0.5,
        cy=(lens.cy - first - 0.5) / step + 0.5,
    )
    return Camera(smaller, camera.pose)
