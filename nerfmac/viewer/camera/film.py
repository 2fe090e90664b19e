"""`Film`: a video along a path, made in the background.

Its own thread feeds the encoder and asks the worker for the pictures in strips, so viewing and
training never wait for more than one strip.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path

import numpy as np

from nerfmac.film import write_video
from nerfmac.geometry.cameras import Camera

STRIP = 2**16
"""Approximate pixels of a strip."""

Render = Callable[[Camera], "Future[np.ndarray]"]


class Cancelled(Exception):
    """The film was cancelled; there is no file."""


class Film:
    """A video in the making. The file appears when it is whole."""

    def __init__(self, path: Path, render: Render, cameras: Sequence[Camera], fps: float) -> None:
        """`render` gives a future of the uint8 (h, w, 3) picture that a camera takes."""
        self.path = path
        self.total = len(cameras)
        self.done = 0
        self.result: Future[Path] = Future()
        self._render, self._cameras, self._fps = render, cameras, fps
        self._is_cancelled = threading.Event()
        self._start = time.monotonic()

    def start(self) -> Film:
        """Start in the background. `result` gets the path, or the exception that ended the film."""
        threading.Thread(target=self._make, name="nerfmac film", daemon=True).start()
        return self

    def wait(self, seconds: float) -> None:
        """Wait for the result, for at most that long."""
        wait([self.result], seconds)

    def cancel(self) -> None:
        """Stop before the next strip, without a file."""
        self._is_cancelled.set()

    @property
    def left(self) -> float | None:
        """Estimated seconds to the end; None before the first picture."""
        if not self.done:
            return None
        return (time.monotonic() - self._start) / self.done * (self.total - self.done)

    def _make(self) -> None:
        try:
            write_video(self.path, self._frames(), self._fps)
        except BaseException as error:  # goes to whoever waits for the result
            self.result.set_exception(error)
        else:
            self.result.set_result(self.path)

    def _frames(self) -> Iterator[np.ndarray]:
        for camera in self._cameras:
            yield np.concatenate([self._strip(strip) for strip in _strips(camera)])
            self.done += 1

    def _strip(self, camera: Camera) -> np.ndarray:
        if self._is_cancelled.is_set():
            raise Cancelled
        return self._render(camera).result()


def _strips(camera: Camera) -> Iterator[Camera]:
    lens = camera.lens
    rows = max(STRIP // lens.width // 4 * 4, 4)
    for first in range(0, lens.height, rows):
        yield replace(camera, lens=lens.rows(first, min(rows, lens.height - first)))
