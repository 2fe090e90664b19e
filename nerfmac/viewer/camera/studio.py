"""`Studio`: the camera path of a session, and the film along it."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan, degrees
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.geometry.cameras import Camera
from nerfmac.paths import MOVES, SPLITS, CameraPath, Keyframe, tour
from nerfmac.rendering.gaze import centre_seen
from nerfmac.run import Run, load_path, split_cameras
from nerfmac.viewer.camera.film import Film, Render
from nerfmac.viewer.camera.navigation import View

MOVE_KEYFRAMES = 16
"""Keyframes that stand for a move around the scene: as a path they are within a degree of it."""

LINE = 96
"""Points of the path as the page draws it."""


class Studio:
    """Keyframes, the path through them, and at most one film at a time."""

    def __init__(self, run: Run) -> None:
        self.path = CameraPath(())
        self.film: Film | None = None
        self._run = run
        self._drawn: tuple[CameraPath, list[list[float]]] | None = None

    def add(self, view: View) -> None:
        """Add `view` as the last keyframe."""
        self.path = self.path.added(Keyframe(view.pose, view.fov))

    def remove(self, index: int) -> None:
        """Drop keyframe `index`. Raises `InputError`."""
        self.path = self.path.removed(index)

    def replace(self, index: int, view: View) -> None:
        """Put `view` in the place of keyframe `index`. Raises `InputError`."""
        self.path = self.path.replaced(index, Keyframe(view.pose, view.fov))

    def clear(self) -> None:
        """Drop all keyframes."""
        self.path = CameraPath(())

    def follow(self, name: str) -> None:
        """Make the move of that name the path, to be edited or filmed. Raises `InputError`.

        The names are those of `paths.MOVES`, and `train` or `test` for a tour along those views'
        cameras.
        """
        checks.choice("move", name, (*MOVES, *SPLITS))
        scene, move = self._run.scene, MOVES.get(name, tour)
        given = split_cameras(self._run, name) if name in SPLITS else scene.cameras
        centre = centre_seen(self._run.renderer(), scene.cameras, scene.up)
        cameras = move(given, up=scene.up, frames=MOVE_KEYFRAMES, centre=centre)
        fovs = [2.0 * atan(0.5 * each.lens.height / each.lens.fl_y) for each in cameras]
        poses = [each.pose.astype(np.float64) for each in cameras]
        keyframes = [Keyframe(pose, fov) for pose, fov in zip(poses, fovs, strict=True)]
        self.path = CameraPath(keyframes, closed=name in MOVES)

    def view_at(self, keyframe: Keyframe, now: View) -> View:
        """The view of a keyframe, whose centre is as far ahead as that of `now`."""
        return now.stand(keyframe.pose).with_fov(keyframe.fov)

    def save(self, name: str) -> None:
        """Write the path to a JSON file. Raises `InputError`."""
        self.path.save(_file(name, ".json"))

    def load(self, name: str) -> None:
        """Read the path from a JSON file, as `run.load_path` does. Raises `InputError`."""
        self.path = load_path(self._run, _file(name, ".json"))

    def cameras(self, frames: int, size: tuple[int, int]) -> Sequence[Camera]:
        """Cameras of even size along the path; with fewer than two keyframes, around the scene."""
        if len(self.path.keyframes) < 2:
            return self._run.orbit(frames, size)
        return self.path.cameras(frames, size)

    @property
    def is_filming(self) -> bool:
        """Whether a film is in the making."""
        return self.film is not None and not self.film.result.done()

    def begin(
        self, name: str, seconds: float, fps: float, size: tuple[int, int], render: Render
    ) -> Film:
        """The film along the path, not started yet. Raises `InputError`."""
        if self.is_filming:
            raise InputError("a video is being rendered; wait for it or cancel it")
        checks.number("seconds", seconds, low=0.01, high=3600.0)
        checks.number("fps", fps, low=1.0, high=240.0)
        for side, pixels in zip(("width", "height"), size, strict=True):
            checks.number(side, pixels, low=2, high=8192, whole=True)
        cameras = self.cameras(max(round(seconds * fps), 1), size)
        self.film = Film(_file(name, ".mp4"), render, cameras, fps)
        return self.film

    def status(self) -> dict[str, Any]:
        """The state of the path and the film, for the page."""
        if self._drawn is None or self._drawn[0] is not self.path:
            line: list[list[float]] = []
            if len(self.path.keyframes) > 1:
                line = self.path.polyline(LINE).round(4).tolist()
            self._drawn = self.path, line
        keyframes = [
            {"pose": [float(x) for x in keyframe.pose.ravel()], "fov": degrees(keyframe.fov)}
            for keyframe in self.path.keyframes
        ]
        film, video = self.film, None
        if film is not None and not film.result.done():
            video = {"done": film.done, "total": film.total, "left": film.left}
        return {"keyframes": keyframes, "path": self._drawn[1], "video": video}


def _file(name: str, ending: str) -> Path:
    path = user_path(name)
    if path.suffix.lower() != ending:
        raise InputError(f"{name!r} is not a file's name here; expected one that ends in {ending}")
    return path
