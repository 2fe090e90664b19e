"""`PathEditor`: the camera path of a session, and the video along it."""

from __future__ import annotations

from itertools import chain, count
from math import atan, degrees
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.paths import MOVES, SPLITS, CameraPath, Keyframe, tour
from nerfmac.app.paths.gaze import look_at_from_depth
from nerfmac.app.run import Run, load_path, split_cameras
from nerfmac.app.viewer.video_job import Render, VideoJob
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path

MOVE_KEYFRAMES = 16
"""Keyframes that represent a move around the scene. The path through them deviates from the move by
less than a degree."""

LINE_POINTS = 96
"""Number of points of the line that the page draws for the path."""


class PathEditor:
    """The camera path of a session, and at most one video that is being rendered along it."""

    def __init__(self, run: Run) -> None:
        self.path = CameraPath(())
        self.video: VideoJob | None = None
        self._run = run
        self._line: tuple[CameraPath, list[list[float]]] | None = None  # of the path drawn last

    def follow(self, name: str) -> None:
        """Replace the path by a named move around the scene. Raises `InputError`.

        `name` is a key of `paths.MOVES`; or `train` or `test`, for a tour along these views.
        """
        checks.choice("move", name, (*MOVES, *SPLITS))
        scene, move = self._run.scene, MOVES.get(name, tour)
        views = split_cameras(self._run, name) if name in SPLITS else scene.cameras
        centre = look_at_from_depth(self._run.renderer(), scene.cameras, scene.up)
        cameras = move(views, up=scene.up, frames=MOVE_KEYFRAMES, centre=centre)
        keyframes = [
            Keyframe(
                camera.pose.astype(np.float64),
                2.0 * atan(0.5 * camera.lens.height / camera.lens.fl_y),
            )
            for camera in cameras
        ]
        self.path = CameraPath(keyframes, closed=name in MOVES)

    def save(self, name: str) -> Path:
        """Write the path to a new JSON file `name`, and return its path; see `free_path`.

        Raises `InputError`.
        """
        path = free_path(_file(name, ".json"))
        self.path.save(path)
        return path

    def load(self, name: str) -> None:
        """Read the path from a JSON file, as `run.load_path` does. Raises `InputError`."""
        self.path = load_path(self._run, _file(name, ".json"))

    @property
    def is_rendering(self) -> bool:
        """Whether a video is being rendered."""
        return self.video is not None and not self.video.result.done()

    def begin_video(
        self, name: str, seconds: float, fps: float, size: tuple[int, int], render: Render
    ) -> VideoJob:
        """The job of a video along the path, not started yet; `size` is rounded down to even.

        With fewer than two keyframes it follows an orbit around the scene. Raises `InputError` for
        an argument out of range, and while another video is being rendered.
        """
        if self.is_rendering:
            raise InputError("a video is being rendered; wait for it or cancel it")
        checks.number("seconds", seconds, low=0.01, high=3600.0)
        checks.number("fps", fps, low=1.0, high=240.0)
        for side, pixels in zip(("width", "height"), size, strict=True):
            checks.number(side, pixels, low=2, high=8192, whole=True)
        along = self._run.orbit if len(self.path.keyframes) < 2 else self.path.cameras
        cameras = along(max(round(seconds * fps), 1), size)
        self.video = VideoJob(_file(name, ".mp4"), render, cameras, fps)
        return self.video

    def status(self) -> dict[str, Any]:
        """JSON values of path and video, for the page."""
        if self._line is None or self._line[0] is not self.path:
            line: list[list[float]] = []
            if len(self.path.keyframes) > 1:
                line = self.path.polyline(LINE_POINTS).round(4).tolist()
            self._line = self.path, line
        keyframes = [
            {"pose": [float(x) for x in keyframe.pose.ravel()], "fov": degrees(keyframe.fov)}
            for keyframe in self.path.keyframes
        ]
        job, video = self.video, None
        if job is not None and not job.result.done():
            video = {"done": job.done, "total": job.total, "left": job.left}
        return {"keyframes": keyframes, "path": self._line[1], "video": video}


def free_path(path: Path) -> Path:
    """Return `path`, or if it exists the first of path-2, path-3, ... that does not."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(each for each in chain([path], numbered) if not each.exists())


def _file(name: str, ending: str) -> Path:
    path = user_path(name)
    if path.suffix.lower() != ending:
        raise InputError(f"{name!r} is not a file's name here; expected one that ends in {ending}")
    return path
