"""Keyframes, the camera path through them, and its JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.files import write_json
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens, focal_length
from nerfmac.json_reader import Fields, read_fields
from nerfmac.paths.curve import Curve
from nerfmac.paths.quaternions import matrices, quaternions

Array = npt.NDArray[np.float64]

SCHEMA = 1
"""Version of the JSON file's format."""

RIGID = 1e-3
"""How far R^T R may be from the identity: files written by hand may round to four digits."""


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A camera to scene `pose`, float64 (3, 4), and the vertical field of view in radians.

    Raises InputError for a pose that is not a finite rotation and place, or a `fov` that is not
    between 0 and pi.
    """

    pose: Array
    fov: float

    def __post_init__(self) -> None:
        pose = checks.finite("pose", self.pose, (3, 4))
        rotation = pose[:, :3]
        if np.abs(rotation.T @ rotation - np.eye(3)).max() > RIGID or np.linalg.det(rotation) < 0.0:
            raise InputError("pose is not rigid; expected a rotation and a place")
        pose.setflags(write=False)
        object.__setattr__(self, "pose", pose)
        focal_length("fov", self.fov, 1)
        object.__setattr__(self, "fov", float(self.fov))

    def camera(self, width: int, height: int) -> Camera:
        """The camera for pictures of `width` x `height` square pixels, without distortion."""
        checks.number("width", width, low=1, whole=True)
        checks.number("height", height, low=1, whole=True)
        focal = focal_length("fov", self.fov, height)
        lens = Lens(width, height, focal, focal, width / 2, height / 2)
        return Camera(lens, self.pose.astype(np.float32))


@dataclass(frozen=True, eq=False)
class CameraPath:
    """The smooth path through `keyframes`; a `closed` one leads back from the last to the first.

    With one keyframe the camera stands still. A keyframe that equals the one before adds nothing. A
    path may also have no keyframes: then it can only be edited and drawn.
    """

    keyframes: Sequence[Keyframe]
    closed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "keyframes", tuple(self.keyframes))

    def at(self, time: float) -> Keyframe:
        """The keyframe at `time`: 0 is the start, 1 the end; on a closed path these are one.

        Raises InputError for a time outside [0, 1] and a path without keyframes.
        """
        checks.number("time", time, low=0.0, high=1.0)
        place, rotation, fov = self._curve.at(np.array([time], np.float64))
        return Keyframe(np.concatenate([matrices(rotation)[0], place[0, :, None]], axis=1), fov[0])

    def cameras(self, frames: int, size: tuple[int, int]) -> list[Camera]:
        """Return `frames` cameras, evenly spaced in time; an open path begins and ends with one.

        On a closed path the first camera follows the last. `size` is the width and height of a
        frame in pixels, rounded down to even, as video needs. Raises InputError for bad numbers
        and a path without keyframes.
        """
        checks.number("frames", frames, low=1, whole=True)
        width, height = size
        checks.number("width", width, low=2, whole=True)
        checks.number("height", height, low=2, whole=True)
        steps = frames if self.closed else max(frames - 1, 1)
        keyframes = [self.at(index / steps) for index in range(frames)]
        return [each.camera(width // 2 * 2, height // 2 * 2) for each in keyframes]

    def polyline(self, points: int) -> Array:
        """Return `points` places (points, 3) evenly from start to end; (0, 3) without keyframes."""
        checks.number("points", points, low=1, whole=True)
        if not self.keyframes:
            return np.zeros((0, 3))
        return self._curve.at(np.linspace(0.0, 1.0, points))[0]

    @property
    def times(self) -> Array:
        """The times (n,) at which the path passes through each keyframe, as `at` takes them."""
        return self._curve.times

    def added(self, keyframe: Keyframe) -> CameraPath:
        """The path with one more keyframe at its end."""
        return replace(self, keyframes=(*self.keyframes, keyframe))

    def removed(self, index: int) -> CameraPath:
        """The path without keyframe `index`. Raises InputError if there is none."""
        self._check(index)
        return replace(self, keyframes=(*self.keyframes[:index], *self.keyframes[index + 1 :]))

    def replaced(self, index: int, keyframe: Keyframe) -> CameraPath:
        """The path with `keyframe` in place of `index`. Raises InputError if there is none."""
        self._check(index)
        after = self.keyframes[index + 1 :]
        return replace(self, keyframes=(*self.keyframes[:index], keyframe, *after))

    def save(self, path: str | Path) -> None:
        """Write the path to the JSON file `path`. Raises InputError if it has no keyframes."""
        if not self.keyframes:
            raise InputError("the camera path has no keyframes to save; add one first")
        keyframes = [{"pose": each.pose.tolist(), "fov": each.fov} for each in self.keyframes]
        values = {"schema": SCHEMA, "closed": self.closed, "keyframes": keyframes}
        write_json(Path(path), values)

    @classmethod
    def load(cls, path: str | Path) -> CameraPath:
        """The path in the JSON file `path`. Raises InputError that names the file and the field."""
        file = read_fields(Path(path))
        file.allow_only("schema", "closed", "keyframes")
        if file.number("schema") != SCHEMA:
            raise file.wrong("schema", f"{SCHEMA}, the only one that this version reads")
        closed = file.flag("closed")
        return cls([_read(each) for each in file.objects("keyframes")], closed)

    def _check(self, index: int) -> None:
        if not self.keyframes:
            raise InputError(f"keyframe {index} does not exist; the camera path has none")
        checks.number("keyframe", index, low=0, high=len(self.keyframes) - 1, whole=True)

    @cached_property
    def _curve(self) -> Curve:
        if not self.keyframes:
            raise InputError("the camera path has no keyframes; add one first")
        poses = np.stack([each.pose for each in self.keyframes])
        fov = np.array([each.fov for each in self.keyframes], np.float64)
        return Curve(poses[:, :, 3], quaternions(poses[:, :, :3]), fov, self.closed)


def _read(fields: Fields) -> Keyframe:
    fields.allow_only("pose", "fov")
    pose, fov = np.array(fields.table("pose", (3,), 4)), fields.number("fov")
    try:
        return Keyframe(pose, fov)
    except InputError as error:
        raise InputError(f"{fields.where}: {error}") from error
