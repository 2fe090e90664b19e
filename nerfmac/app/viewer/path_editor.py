"""`PathEditor` stores the camera path of a viewer session. `VideoJob` renders a video along it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from itertools import chain, count
from math import degrees
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.paths import (
    DEFAULT_SECONDS,
    MOVES,
    SPLITS,
    CameraPath,
    Keyframe,
    orbit,
    tour,
    vertical_fov,
)
from nerfmac.app.paths.moves import TOUR_SECONDS
from nerfmac.app.run import Run, load_path, split_cameras
from nerfmac.app.video import write_video
from nerfmac.app.viewer.settings import check_ranges
from nerfmac.common import InputError, checks, make_folder, user_path
from nerfmac.geometry import Camera

MOVE_KEYFRAMES = 16  # Number of keyframes of a move, for an error of less than one degree.
KEYFRAMES = "keyframes"  # Selects the path through the keyframes of the user.
LONG_SIDES = 720, 1280, 1920, 3840, 480
"""Lengths in pixels of the longer side of a video in the shape of the photos. The first one is the
default."""
SHARED_SIZES = (1920, 1080), (1080, 1920), (1080, 1080)  # Sizes that video platforms expect.
LINE_POINTS = 96  # Number of points of the line that the page draws for the path.
STRIP = 2**16  # Approximate number of pixels in a strip of an image.

Render = Callable[[Camera], "Future[np.ndarray]"]


class Canceled(Exception):
    """Exception that stops a video job after `VideoJob.cancel`."""


class VideoJob:
    """Video that is rendered and encoded in the background, and written only when it is complete.
    The thread of the job requests each image from the worker in strips, so that viewing and
    training wait for at most one strip."""

    def __init__(self, path: Path, render: Render, cameras: Sequence[Camera], fps: float) -> None:
        """Create a job for an MP4 file. `render` draws a strip and returns a future of the pixels,
        uint8 (h, w, 3)."""
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

    def cancel(self) -> None:
        """Stop rendering before the next strip."""
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


class PathEditor:
    """Camera path of a session, and the video along it. At most one video is rendered at a time."""

    def __init__(self, run: Callable[[], Run]) -> None:
        """Create an empty path. `run` returns the run that the viewer shows."""
        self._keyframes = CameraPath(())
        self._name = KEYFRAMES  # Selected path.
        self._moves: dict[str, CameraPath] = {}  # Moves and tours since the last selection.
        self.video: VideoJob | None = None
        self._run = run

    @property
    def path(self) -> CameraPath:
        """Camera path through the user's keyframes. Assigning a path also deselects the move."""
        return self._keyframes

    @path.setter
    def path(self, path: CameraPath) -> None:
        self._keyframes, self._name, self._moves = path, KEYFRAMES, {}

    @property
    def followed(self) -> CameraPath:
        """Camera path of the selected move or, by default, through the user's keyframes."""
        return self._keyframes if self._name == KEYFRAMES else self._moves[self._name]

    def follow(self, name: str) -> None:
        """Select the camera path for playing and rendering. The keyframes remain unchanged. `name`
        is a key of `paths.MOVES`; a split in `paths.SPLITS`, for a tour along its views; or
        `keyframes`."""
        checks.choice("move", name, (KEYFRAMES, *MOVES, *SPLITS))
        self._moves = {} if name == KEYFRAMES else {name: self._around(name)}
        self._name = name

    @property
    def film(self) -> CameraPath:
        """Camera path that is played and rendered: the followed path, or an orbit around the scene
        if it has fewer than two keyframes."""
        if len(self.followed.keyframes) > 1:
            return self.followed
        if "orbit" not in self._moves:
            self._moves["orbit"] = self._around("orbit")
        return self._moves["orbit"]

    @property
    def seconds(self) -> float:
        """Duration of the film in seconds, if the user does not choose another one."""
        if self._name in SPLITS:
            return TOUR_SECONDS
        if self._name == KEYFRAMES and len(self._keyframes.keyframes) > 1:
            return self._keyframes.seconds or DEFAULT_SECONDS
        return MOVES.get(self._name, orbit).seconds

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """Widths and heights of a video, first the default."""
        lens = self._run().scene.cameras("train")[0].lens
        longest = max(lens.width, lens.height)

        def even(pixels: float) -> int:
            return 2 * round(0.5 * pixels)

        scales = [side / longest for side in LONG_SIDES]
        shapes = [(even(scale * lens.width), even(scale * lens.height)) for scale in scales]
        return list(dict.fromkeys([*shapes, *SHARED_SIZES]))

    def _around(self, name: str) -> CameraPath:
        run, move = self._run(), MOVES.get(name, tour)
        views = split_cameras(run, name) if name in SPLITS else run.scene.cameras("train")
        cameras = move(views, up=run.scene.up, frames=MOVE_KEYFRAMES, center=run.center())
        keyframes = [Keyframe(camera.pose, vertical_fov(camera.lens)) for camera in cameras]
        return CameraPath(keyframes, closed=name in MOVES)

    def save(self, name: str) -> Path:
        """Save the selected path to a new JSON file, and return its path (see `free_path`)."""
        path = free_path(_file(name, ".json"))
        make_folder(path.parent)
        self.followed.save(path)
        return path

    def load(self, name: str) -> None:
        """Replace the keyframes with the camera path in a JSON file; see `run.load_path`."""
        self.path = load_path(self._run(), _file(name, ".json"))

    @property
    def is_rendering(self) -> bool:
        """Whether a video is being rendered."""
        return self.video is not None and not self.video.result.done()

    def begin_video(
        self, name: str, seconds: float, fps: float, size: tuple[int, int], render: Render
    ) -> VideoJob:
        """Create a job, not yet started, that renders an MP4 file along the selected path, or along
        an orbit around the scene if the path has fewer than two keyframes."""
        if self.is_rendering:
            raise InputError("another video is being rendered; wait for it or cancel it")
        check_ranges(video_seconds=seconds, fps=fps)
        for side, pixels in zip(("width", "height"), size, strict=True):
            checks.number(side, pixels, low=2, high=8192, whole=True)
        cameras = self.film.cameras(max(round(seconds * fps), 1), size)
        path = _file(name, ".mp4")
        make_folder(path.parent)
        self.video = VideoJob(path, render, cameras, fps)
        return self.video

    def status(self) -> dict[str, Any]:
        """Return the keyframes, the selected path, and the progress of the video as JSON values."""
        followed, is_path = self.followed, len(self.path.keyframes) > 1
        is_line = len(followed.keyframes) > 1
        times = self.path.times.tolist() if is_path else [0.0] * len(self.path.keyframes)
        keyframes = [
            {
                "pose": [float(x) for x in keyframe.pose.ravel()],
                "fov": degrees(keyframe.fov),
                "seconds": keyframe.seconds,
                "time": time,
            }
            for keyframe, time in zip(self.path.keyframes, times, strict=True)
        ]
        job, video = self.video, None
        if job is not None and not job.result.done():
            video = {"done": job.done, "total": job.total, "left": job.left}
        return {
            "keyframes": keyframes,
            "move": self._name,
            "path": followed.polyline(LINE_POINTS).round(4).tolist() if is_line else [],
            "seconds": self.seconds,
            "closed": followed.closed or not is_line,
            "video": video,
        }


def free_path(path: Path) -> Path:
    """Return `path` or, if it exists, the first of path-2, path-3, ... that does not exist."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(each for each in chain([path], numbered) if not each.exists())


def _file(name: str, extension: str) -> Path:
    path = user_path(name)
    if path.suffix.lower() != extension:
        raise InputError(f"invalid file name {name!r}; the file extension must be {extension}")
    return path
