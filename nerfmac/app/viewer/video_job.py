"""`VideoJob`: a video along a camera path, rendered and encoded in the background.

Its thread feeds the encoder and asks the worker for the images in strips, so that viewing and
training wait for at most one strip.
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
"""Approximate number of pixels in a strip."""

Render = Callable[[Camera], "Future[np.ndarray]"]


class Canceled(Exception):
    """The video was canceled, so there is no file."""


class VideoJob:
    """A video that is rendered in the background. The file appears when it is complete."""

    def __init__(self, path: Path, render: Render, cameras: Sequence[Camera], fps: float) -> None:
        """`render` takes a strip's camera and returns a future of its image, uint8 (h, w, 3)."""
        self.path = path
        self.total = len(cameras)
        self.done = 0
        self.result: Future[Path] = Future()
        self._render, self._cameras, self._fps = render, cameras, fps
        self._is_canceled = threading.Event()
        self._start = time.monotonic()

    def start(self) -> VideoJob:
        """Start the thread. `result` becomes the path, or the exception that ended the video."""
        threading.Thread(target=self._run, name="nerfmac video", daemon=True).start()
        return self

    def wait(self, seconds: float) -> None:
        """Wait for the result, at most `seconds`."""
        wait([self.result], seconds)

    def cancel(self) -> None:
        """Stop before the next strip, without a file."""
        self._is_canceled.set()

    @property
    def left(self) -> float | None:
        """Estimated seconds to the end; None before the first image."""
        if not self.done:
            return None
        return (time.monotonic() - self._start) / self.done * (self.total - self.done)

    def _run(self) -> None:
        try:
            write_video(self.path, self._images(), self._fps)
        except BaseException as error:  # goes to whoever waits for the result
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
