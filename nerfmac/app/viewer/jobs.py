"""`Jobs`, the work of a viewer besides training and drawing: exports, measurements, and videos."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.export import KINDS, check_kind
from nerfmac.app.run import HeldOut, Run
from nerfmac.app.viewer.images import Images
from nerfmac.app.viewer.live_training import LiveTraining
from nerfmac.app.viewer.path_editor import Canceled, PathEditor, VideoJob
from nerfmac.app.viewer.worker import Worker
from nerfmac.common import InputError, appearing, make_folder
from nerfmac.config.rendering import Box, Color
from nerfmac.geometry import Camera

Shape = tuple[float, float, tuple[int, int]]
"""Duration in seconds, frames per second, and width and height of a video."""


class Export:
    """Export of a run, or of its part inside `crop`, a box in scene coordinates, to a new file.
    `run` writes the file on the worker thread, and calls `breathe` between its steps. The run must
    not be trained in the meantime."""

    def __init__(self, kind: str, path: Path, crop: Box | None, background: Color) -> None:
        check_kind(kind, path)
        self._crop, self._background = crop, background
        self.kind, self.path = kind, path
        self.stage, self.fraction = "", 0.0
        self._is_canceled = threading.Event()

    def cancel(self) -> None:
        """Stop the export after its current step. Any thread may call this method."""
        self._is_canceled.set()

    def status(self) -> dict[str, Any]:
        """Return the progress as JSON values for the page."""
        return {"name": self.path.name, "stage": self.stage, "done": round(self.fraction, 3)}

    def run(self, run: Run, breathe: Callable[[], None]) -> None:
        """Write the file."""

        def report(stage: str, fraction: float) -> None:
            if self._is_canceled.is_set():
                raise Canceled
            self.stage, self.fraction = stage, fraction
            breathe()

        options: dict[str, Any] = {"progress": report}
        if self._crop is not None:
            low, high = run.scene.placement.box_to_file(*self._crop)
            options["crop"] = (tuple(low.tolist()), tuple(high.tolist()))
        if self.kind == "page":
            options["background"] = self._background
        elif self.kind == "cameras":
            options = {}
        make_folder(self.path.parent)
        with appearing(self.path) as partial:
            KINDS[self.kind].write(run, partial, **options)


class Jobs:
    """Jobs on a run. `work` runs the next part of an export or a measurement, before training
    continues. A video has a thread of its own, which requests its images from the worker."""

    def __init__(
        self, training: LiveTraining, worker: Worker, done: Callable[[VideoJob], None]
    ) -> None:
        """Create an object without jobs. The worker calls `done` when a video has ended."""
        self.path_editor = PathEditor(lambda: training.run)
        self.held_out: HeldOut | None = None  # Last measured quality on held-out views.
        self.export: Export | None = None  # Export that is waiting or running.
        self.exported: dict[str, str] | None = None  # Name, path, and size of the last export.
        self.files: dict[str, Path] = {}  # Exported files, by name.
        self._measured: tuple[int, int] | None = None  # Number of compared and of all views.
        self._measurement: Generator[tuple[int, int], None, HeldOut] | None = None
        self._training, self._worker, self._done = training, worker, done

    @property
    def is_waiting(self) -> bool:
        """Whether `work` has something to do."""
        return self.export is not None or self._measurement is not None

    def work(self, breathe: Callable[[], None]) -> None:
        """Write the file of the export, and call `breathe` between its steps. Without an export,
        compare the next held-out view with its photo."""
        if (job := self.export) is None:
            self._measure_view()
            return
        try:
            job.run(self._training.run, breathe)
            path, size = job.path.absolute(), f"{job.path.stat().st_size / 1e6:.1f} MB"
            self.exported = {"name": path.name, "path": str(path), "size": size}
            self.files[path.name] = path
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
        if self._measurement is None:
            self._measurement = HeldOut.measuring(self._training.run, self.held_out)

    def _measure_view(self) -> None:
        assert self._measurement is not None
        try:
            self._measured = next(self._measurement)
        except BaseException as end:
            self._measurement = self._measured = None
            if not isinstance(end, StopIteration):
                raise
            self.held_out = end.value

    def begin_video(self, name: str, shape: Shape, images: Images, focus: float) -> VideoJob:
        """Create a video job of the current state, not yet started (see `PathEditor`)."""

        def render(camera: Camera) -> Future[np.ndarray]:
            return self._worker.submit(lambda: images.draw(camera, focus).rgb)

        job = self.path_editor.begin_video(name, *shape, render)
        job.result.add_done_callback(lambda _: self._worker.submit(lambda: self._done(job)))
        return job

    def status(self) -> dict[str, Any]:
        """Return the progress and the results of the jobs as JSON values for a page."""
        return {
            **self.path_editor.status(),
            "held_out": self.held_out and {**self.held_out._asdict(), "word": self.held_out.word},
            "measured": self._measured,
            "export": self.export and self.export.status(),
            "exported": self.exported and {**self.exported, "home": str(Path.home())},
        }
