"""`VideoJob`, a video along a camera path that is rendered and encoded in the background.

The thread of the job requests each image from the worker in strips and passes the complete image to
the encoder. Viewing and training therefore wait for at most one strip.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path

import numpy as np

from nerfmac.app.video import write_video
from nerfmac.geometry.cameras import Camera

STRIP = 2**16
"""Approximate number of pixels in a strip of an image."""

Render = Callable[[Camera], "Future[np.ndarray]"]


class Canceled(Exception):
    """Exception that stops a video job after `VideoJob.cancel`. No video file is written."""


class VideoJob:
    """Video that is rendered in the background. The video file is created only when the video is
    complete."""

    def __init__(self, path: Path, render: Render, cameras: Sequence[Camera], fps: float) -> None:
        """Create the job.

        Args:
            path: MP4 file to write.
            render: Function that renders a strip of an image and returns a future of the pixels,
                uint8 (h, w, 3).
            cameras: Camera of each frame.
            fps: Frames per second.
        """
        self.path = path.absolute()  # The working folder may change before the file is written.
        self.total = len(cameras)
        self.done = 0
        self.result: Future[Path] = Future()
        self._render, self._cameras, self._fps = render, cameras, fps
        self._is_canceled = threading.Event()
        self._start = time.monotonic()

    def start(self) -> VideoJob:
        """Start the thread and return the job. At the end, the future `result` contains the path of
        the video, or the exception that stopped the job."""
        threading.Thread(target=self._run, name="nerfmac video", daemon=True).start()
        return self

    def wait(self, seconds: float) -> None:
        """Wait for the result for at most `seconds` seconds."""
        wait([self.result], seconds)

    def cancel(self) -> None:
        """Stop rendering before the next strip. No video file is written."""
        self._is_canceled.set()

    @property
    def left(self) -> float | None:
        """Estimated remaining time in seconds, or None before the first image."""
        if not self.done:
            return None
        return (time.monotonic() - self._start) / self.done * (self.total - self.done)

    def _run(self) -> None:
        try:
            write_video(self.path, self._images(), self._fps)
        except BaseException as error:  # `Future.result` raises this exception again.
            self.result.set_exception(error)
        else:
            self.result.set_result(self.path)

    def _images(self) -> Iterator[np.ndarray]:
        for camera in self._cameras:
            yield np.concatenate([self._draw(strip) for strip in _strips(camera)])
            self.done += 1

    def _draw(self, camera: Camera) -> np.ndarray:
        if self._is_canceled.is_set():
            raise Canceled
        return self._render(camera).result()


def _strips(camera: Camera) -> Iterator[Camera]:
    lens = camera.lens
    rows = max(STRIP // lens.width // 4 * 4, 4)
    for first in range(0, lens.height, rows):
        yield replace(camera, lens=lens.rows(first, min(rows, lens.height - first)))
