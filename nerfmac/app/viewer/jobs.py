"""`Jobs`, the work of a viewer besides training and drawing: exports, measurements, and videos."""

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.run import HeldOut, Run
from nerfmac.app.viewer.exporting import Export
from nerfmac.app.viewer.images import Images
from nerfmac.app.viewer.path_editor import Canceled, PathEditor, VideoJob
from nerfmac.app.viewer.worker import Worker
from nerfmac.common import InputError
from nerfmac.config.rendering import Box, Color
from nerfmac.geometry import Camera

TRIAL_FRAMES = 4  # Number of small frames that are rendered to estimate the time for a video.
TRIAL_SCALE = 0.2  # Width and height of these frames, relative to the default size of a video.


class Jobs:
    """Jobs on a run. `work` runs the next part of an export or a measurement, before training
    continues. A video has a thread of its own, which requests its images from the worker."""

    def __init__(self, run: Run, worker: Worker) -> None:
        self.path_editor = PathEditor(run)
        self.pace: float | None = None
        """Estimated rendering time of a video in seconds per pixel, or None if it is unknown."""
        self.held_out: HeldOut | None = None  # Last measured quality on held-out views.
        self.export: Export | None = None  # Export that is waiting or running.
        self.exported: str | None = None  # File of the last export, and its size.
        self._measured: tuple[int, int] | None = None  # Number of compared and of all views.
        self._measurement: Generator[tuple[int, int], None, HeldOut] | None = None
        self._run, self._worker = run, worker

    @property
    def is_waiting(self) -> bool:
        """Whether `work` has something to do."""
        return self.export is not None or self._measurement is not None

    def work(self, breathe: Callable[[], None]) -> None:
        """Write the file of the export, and call `breathe` between its steps. Without an export,
        compare the next held-out view with its photo."""
        if self.export is None:
            self._measure_view()
            return
        job = self.export
        try:
            job.run(self._run, breathe)
            self.exported = f"{job.path} ({job.path.stat().st_size / 1e6:.1f} MB)"
        except Canceled:
            pass
        finally:
            self.export = None

    def begin_export(self, kind: str, path: Path, crop: Box | None, background: Color) -> None:
        """Export the scene, or its part inside `crop`, to a new file."""
        if self.export is not None:
            raise InputError("another export is running; wait for it or cancel it")
        self.export, self.exported = Export(kind, path, crop, background), None

    def measure(self) -> None:
        """Start to measure the PSNR on held-out views. Another measurement is not started while one
        is running."""
        self._measurement = self._measurement or HeldOut.measuring(self._run, self.held_out)
        self._measure_view()

    def _measure_view(self) -> None:
        assert self._measurement is not None
        try:
            self._measured = next(self._measurement)
        except BaseException as end:
            self._measurement = self._measured = None
            if not isinstance(end, StopIteration):
                raise
            self.held_out = end.value

    def estimate(self, images: Images, focus: float) -> None:
        """Measure the rendering time of a video along the camera path. `images` determines the
        content, and `focus` is the distance of the center of the view."""
        width, height = (round(TRIAL_SCALE * side) for side in self.path_editor.sizes[0])
        first, *others = self.path_editor.film.cameras(TRIAL_FRAMES, (width, height))
        images.draw(first, focus)  # Compiles functions for images of this size.
        start = time.perf_counter()
        for camera in others:
            images.draw(camera, focus)
        self.pace = (time.perf_counter() - start) / (width * height * len(others))

    def begin_video(
        self,
        name: str,
        shape: tuple[float, float, tuple[int, int]],
        images: Images,
        focus: float,
        done: Callable[[VideoJob], None],
    ) -> VideoJob:
        """Create a video job of the current state, not yet started (see `PathEditor`). `shape` is
        the duration in seconds, the frame rate, and the size. The worker calls `done` at the end.
        """

        def render(camera: Camera) -> Future[np.ndarray]:
            return self._worker.submit(lambda: images.draw(camera, focus).rgb)

        job = self.path_editor.begin_video(name, *shape, render)
        job.result.add_done_callback(lambda _: self._worker.submit(lambda: done(job)))
        return job

    def status(self) -> dict[str, Any]:
        """Return the progress and the results of the jobs as JSON values for a page."""
        return {
            **self.path_editor.status(),
            "pace": self.pace,
            "export": self.export and self.export.status(),
            "exported": self.exported,
        }

    def quality(self) -> dict[str, Any]:
        """Return the quality on held-out views, and the progress of a measurement."""
        held_out = self.held_out and self.held_out._asdict()
        return {"held_out": held_out, "measured": self._measured}
