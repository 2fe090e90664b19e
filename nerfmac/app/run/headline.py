"""The quality of a run that nerfmac reports after training and in the viewer, always measured over
the same test views, and the time that this measurement takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.run.run import Run
from nerfmac.backend import current_device
from nerfmac.common import read_fields
from nerfmac.config.rendering import BACKGROUNDS
from nerfmac.geometry import Camera
from nerfmac.rendering.evaluation import Evaluation, ViewQuality, evaluate, spread

CPU_PIXELS = 2**24
"""Maximum total number of pixels of the measured views on a CPU. A GPU measures all views."""
TRIAL = 2**11
"""Approximate number of pixels that the first trial renders, in total over all cameras."""
TRIAL_SECONDS = 0.15
"""Minimum duration in seconds of a reduced-size trial. Shorter trials measure launch overhead on a
GPU instead of throughput."""
REPETITIONS = 4
"""Number of repetitions of the last trial. The median ignores interruptions by other programs."""
# Words for the lowest PSNR in dB at which they apply, from the best to the worst.
WORDS = {30.0: "very good", 25.0: "good", 20.0: "fair", float("-inf"): "poor"}


class HeldOut(NamedTuple):
    """PSNR in dB of test views at a training step, and the views that were measured."""

    psnr: float
    step: int
    views: int  # Number of measured views.
    of: int  # Number of test views of the scene.

    @property
    def word(self) -> str:
        """Quality of renderings from new cameras, for readers who do not know PSNR."""
        return next(word for least, word in WORDS.items() if self.psnr >= least)

    @classmethod
    def read(cls, folder: Path, step: int) -> HeldOut | None:
        """Read the summary from `metrics.json` in a run folder. Return None if the file does not
        exist, contains no PSNR of test views, or belongs to another step."""
        path = folder / "metrics.json"
        if not path.is_file():
            return None
        values = read_fields(path)
        if values.count("steps", 0) != step or values.is_null("psnr_test"):
            return None
        views, of = values.count("test_views"), values.count("test_views_in_scene")
        return cls(values.number("psnr_test"), step, views, of)

    @classmethod
    def measuring(
        cls, run: Run, known: HeldOut | None = None
    ) -> Generator[tuple[int, int], None, HeldOut]:
        """Measure the current state of a run view by view.

        Args:
            run: Run whose scene has test views. Training between two views does not affect the
                measurement.
            known: Last measurement. If it belongs to the current step and has enough views, it is
                returned. Otherwise, at least as many views are measured as for `known`.

        Yields:
            Number of measured views, and number of views to measure, after each view.

        Returns:
            The measurement of the views that `measured_views` selects.

        Raises:
            InputError: If the scene has no test views, or its images cannot be read.
        """
        step, limit = run.state.step, measured_views(run, known.views if known else 0)
        if known is not None and (known.step, known.views) == (step, limit):
            return known
        views, found = run.views("test", progress=False), list[ViewQuality]()
        for view in evaluate(run.renderer, views, "white", run.config.train.blend, limit=limit):
            found.append(view)
            yield len(found), limit
        of = len(views.names)
        return cls(Evaluation(found, split="test", of=of).psnr, step, len(found), of)


def measured_views(run: Run, at_least: int = 0) -> int:
    """Return the number of test views to measure, the value of `limit` in `Run.evaluate`.

    The number depends only on the scene and the device. It is at least `at_least`, the number of
    views of an earlier measurement, so that a measurement is never replaced by one with fewer
    views. A scene without test views has the number 0.
    """
    scene = run.images()
    if not scene.splits.get("test"):
        return 0
    sizes = scene.views("test", progress=False).cameras.sizes
    if current_device() != "cpu":
        return len(sizes)
    pixels = np.cumsum([sizes[index][0] * sizes[index][1] for index in spread(len(sizes))])
    number = max(int((pixels <= CPU_PIXELS).sum()), at_least, 1)
    return min(number, len(sizes))


def seconds_to_measure(run: Run, number: int) -> float:
    """Estimate the time in seconds to measure `number` test views."""
    cameras, renderer = run.images().views("test", progress=False).cameras, run.renderer()
    chosen = spread(len(cameras))[:number]
    pixels = sum(cameras.sizes[index][0] * cameras.sizes[index][1] for index in chosen)
    white = BACKGROUNDS["white"]
    return pixels * seconds_per_pixel(
        lambda camera: renderer.pixels(camera, white), [cameras[index] for index in chosen[:4]]
    )


def seconds_per_pixel(render: Callable[[Camera], Any], cameras: Sequence[Camera]) -> float:
    """Measure the rendering time in seconds per pixel by rendering smaller images from all cameras.

    `render` returns the arrays of an image. All images use the first camera's lens, scaled to the
    smaller size.
    """
    lens, pixels = cameras[0].lens, TRIAL
    while True:
        scale = min(1.0, math.sqrt(pixels / (lens.width * lens.height * len(cameras))))
        small = lens.scaled(max(round(lens.width * scale), 1), max(round(lens.height * scale), 1))
        trial = [Camera(small, camera.pose) for camera in cameras]
        mx.eval(render(trial[0]))  # compiles
        seconds = _seconds(render, trial)
        if seconds >= TRIAL_SECONDS or scale == 1.0:
            repeated = [seconds, *(_seconds(render, trial) for _ in range(REPETITIONS))]
            return median(repeated) / (small.width * small.height * len(cameras))
        pixels *= 4


def _seconds(render: Callable[[Camera], Any], cameras: Sequence[Camera]) -> float:
    start = time.perf_counter()
    for camera in cameras:
        mx.eval(render(camera))
    return time.perf_counter() - start
