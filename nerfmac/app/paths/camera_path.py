"""`CameraPath`, a smooth path through keyframes, and its JSON formats in nerfmac, nerfstudio, and
instant-ngp.

nerfmac's format contains `schema`, `closed`, and `keyframes` with the fields of `Keyframe`.

nerfstudio's camera_path.json, as written by its viewer and read by `ns-render camera-path`:

    camera_path    every frame: camera_to_world, 4 rows of 4 numbers or a list of 16 numbers, with
                   OpenGL axes as in this package; fov, vertical, in degrees; aspect
    keyframes      the keyframes that its viewer edits: the same with `matrix`
    fps, seconds, is_cycle, render_width, render_height

nerfmac reads the frames instead of the keyframes, so the path is exactly the path that nerfstudio
renders. Positions are in the scene coordinates of nerfstudio. `run.load_path` transforms them to
the scene coordinates of a run.

instant-ngp's base_cam.json:

    path    the keyframes: R, a quaternion x, y, z, w of the camera-to-scene rotation; T, the
            position; fov, vertical, in degrees; scale, slice, aperture_size, which are not used
    loop    whether the path is closed; absent in older files
    time    the time that the window of instant-ngp shows

The first, second, and third scene axes of instant-ngp are the axes y, z, and x of nerfmac. Cameras
of instant-ngp look along +z, with y down. Keyframes are equally spaced in time. The path in
instant-ngp is a B-spline that passes near the keyframes. In nerfmac, the path passes through the
keyframes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.curve import Curve, Timing, matrices, quaternions
from nerfmac.common import (
    Fields,
    Float64Array,
    InputError,
    checks,
    prefix_errors,
    read_fields,
    user_path,
    write_json,
)
from nerfmac.geometry import Camera, Lens, focal_length

RIGID_WITHIN = 1e-3  # Tolerance of |R^T R - I| for rotations R, for rounded numbers.
MAX_SECONDS = 3600.0  # Maximum time in seconds between two keyframes.
KINDS = ("nerfmac", "nerfstudio", "instant-ngp")  # Formats that `save` can write.
DEFAULT_SECONDS = 5.0  # Default duration in seconds of a path without timed keyframes.
SCHEMA = 1  # Version of nerfmac's format.
PERSPECTIVE = "perspective"  # The only supported `camera_type` of nerfstudio files.
NGP_AXES = [1, 2, 0]  # Scene axes of nerfmac that are instant-ngp's first, second, and third.
NGP_FLIP = np.array([1.0, -1.0, -1.0])  # Camera axes of instant-ngp: y down, z forward.
NGP_SECONDS = 1.0  # Assumed time between two keyframes. The files contain no times.
UNIT_WITHIN = 1e-2  # Tolerance of the length of a quaternion, for rounded numbers.


def vertical_fov(lens: Lens) -> float:
    """Return the vertical field of view in radians, ignoring distortion."""
    return 2.0 * math.atan(lens.tangents[1])


def even_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return a width and height in pixels, at least 2, rounded down to even numbers for videos."""
    for name, side in zip(("width", "height"), size, strict=True):
        checks.number(name, side, low=2, whole=True)
    return size[0] // 2 * 2, size[1] // 2 * 2


@dataclass(frozen=True, eq=False)
class Keyframe:
    """Camera pose and field of view on a camera path, with the time of the camera at this pose.

    Attributes:
        pose: Camera-to-scene pose, float64 (3, 4).
        fov: Vertical field of view in radians, between 0 and pi.
        seconds: Time in seconds since the previous keyframe, above 0 and up to 3600. If None, the
            camera moves at the mean speed of the segments with a duration. For the first keyframe
            of an open path, this attribute is ignored.
        ease: Whether the camera slows down before this keyframe, stops, and speeds up again.

    Raises:
        InputError: If a value is out of range, or the pose is not a finite rotation and position.
    """

    pose: npt.NDArray[np.floating[Any]]
    fov: float
    seconds: float | None = None
    ease: bool = False

    def __post_init__(self) -> None:
        pose = checks.finite("pose", self.pose, (3, 4))
        rotation = pose[:, :3]
        error = np.abs(rotation.T @ rotation - np.eye(3)).max()
        if error > RIGID_WITHIN or np.linalg.det(rotation) < 0.0:
            raise InputError(
                f"pose must be a rotation and a translation, but its 3x3 part is not orthogonal "
                f"(error {error:.3g}) or has determinant -1"
            )
        pose.setflags(write=False)
        object.__setattr__(self, "pose", pose)
        focal_length("fov", self.fov, 1)
        object.__setattr__(self, "fov", float(self.fov))
        if self.seconds is not None:
            checks.number("seconds", self.seconds, high=MAX_SECONDS)
            if self.seconds <= 0.0:
                raise InputError(
                    f"seconds is {self.seconds:g}; expected a value above 0 and up to "
                    f"{MAX_SECONDS:g}"
                )
            object.__setattr__(self, "seconds", float(self.seconds))

    def camera(self, width: int, height: int) -> Camera:
        """Return an undistorted camera with square pixels.

        Args:
            width: Image width in pixels.
            height: Image height in pixels.

        Returns:
            Camera in the coordinates of the keyframe.
        """
        checks.number("width", width, low=1, whole=True)
        checks.number("height", height, low=1, whole=True)
        focal = focal_length("fov", self.fov, height)
        lens = Lens(width, height, focal, focal, width / 2, height / 2)
        return Camera(lens, self.pose.astype(np.float32))


@dataclass(frozen=True, eq=False)
class CameraPath:
    """Smooth camera path through keyframes. A closed path returns from the last keyframe to the
    first one.

    The camera moves at constant speed, except where keyframes have `seconds` or `ease`. If the path
    has only one keyframe, the camera does not move. If a keyframe equals the previous one, it adds
    a pause of `seconds`. If its `seconds` is None, it has no effect. A path without keyframes can
    be edited and drawn, but not rendered.

    Examples:
        >>> views = scene.cameras("train")[:3]
        >>> path = nerfmac.CameraPath([nerfmac.Keyframe(view.pose, fov=0.7) for view in views])
        >>> cameras = path.cameras(frames=48, size=(640, 480))
        >>> len(cameras)
        48
    """

    keyframes: Sequence[Keyframe]
    closed: bool = False
    fps: float | None = None
    """Frames per second in the nerfstudio file that the path was loaded from, or None."""
    size: tuple[int, int] | None = None
    """Frame width and height in pixels in the nerfstudio file that the path was loaded from, or
    None."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keyframes", tuple(self.keyframes))

    def at(self, time: float) -> Keyframe:
        """Return the interpolated camera at a time, as a keyframe.

        Args:
            time: Time from 0 (start) to 1 (end).

        Returns:
            Interpolated keyframe.

        Raises:
            InputError: If the time is outside [0, 1] or the path has no keyframes.
        """
        checks.number("time", time, low=0.0, high=1.0)
        walked = self._timing.walked(np.array([time], np.float64))
        position, rotation, fov = self._curve.at(walked)
        return Keyframe(np.column_stack([matrices(rotation)[0], position[0]]), fov[0])

    def cameras(self, frames: int, size: tuple[int, int]) -> list[Camera]:
        """Return cameras that are evenly spaced in time.

        On an open path, the first and the last camera are at the ends of the path. On a closed
        path, the first camera follows the last one.

        Args:
            frames: Number of cameras.
            size: Width and height of a frame in pixels, rounded down to even numbers for videos.

        Returns:
            `frames` cameras in the coordinates of the keyframes.

        Raises:
            InputError: If a number is out of range or the path has no keyframes.
        """
        checks.number("frames", frames, low=1, whole=True)
        size = even_size(size)
        return [frame.camera(*size) for frame in self._frames(frames)]

    def polyline(self, points: int) -> Float64Array:
        """Return positions on the path that are evenly spaced in time.

        Args:
            points: Number of positions, at least 1.

        Returns:
            Positions (points, 3), float64. If the path has no keyframes, the shape is (0, 3).

        Raises:
            InputError: If `points` is not a positive integer.
        """
        checks.number("points", points, low=1, whole=True)
        if not self.keyframes:
            return np.zeros((0, 3))
        return self._curve.at(self._timing.walked(np.linspace(0.0, 1.0, points)))[0]

    @property
    def times(self) -> Float64Array:
        """Times (n,) of the keyframes, from 0 (start of the path) to 1 (end), like the argument of
        `at`."""
        return self._timing.times[: len(self.keyframes)]

    @property
    def seconds(self) -> float | None:
        """Duration of the path in seconds, or None if no keyframe has a time."""
        return self._timing.seconds

    def added(self, keyframe: Keyframe) -> CameraPath:
        """Return the path with a keyframe appended.

        Args:
            keyframe: Keyframe for the end of the path.

        Returns:
            New path.
        """
        return replace(self, keyframes=(*self.keyframes, keyframe))

    def removed(self, index: int) -> CameraPath:
        """Return the path without one of its keyframes.

        Args:
            index: Index of the keyframe.

        Returns:
            New path.

        Raises:
            InputError: If the path has no keyframe with this index.
        """
        return self._spliced(index)

    def replaced(self, index: int, keyframe: Keyframe) -> CameraPath:
        """Return the path with a keyframe replaced.

        Args:
            index: Index of the keyframe to replace.
            keyframe: New keyframe.

        Returns:
            The new path.

        Raises:
            InputError: If there is no keyframe with this index.
        """
        return self._spliced(index, keyframe)

    def save(
        self,
        path: str | Path,
        kind: str = "nerfmac",
        *,
        fps: float = 24.0,
        size: tuple[int, int] = (1920, 1080),
    ) -> None:
        """Save the path to a JSON file.

        Args:
            path: File to write.
            kind: Program that reads the file: "nerfmac", "nerfstudio" (camera_path.json with every
                frame), or "instant-ngp" (base_cam.json).
            fps: Frames per second, for nerfstudio.
            size: Width and height of a frame in pixels, for nerfstudio.

        Raises:
            InputError: If the path has no keyframes, `kind` is unknown, `fps` is below 1, or the
                file cannot be written.
        """
        if not self.keyframes:
            raise InputError("the camera path has no keyframes to save; add one first")
        checks.choice("kind", kind, KINDS)
        if kind == "nerfmac":
            entries = [_own_entry(keyframe) for keyframe in self.keyframes]
            values = {"schema": SCHEMA, "closed": self.closed, "keyframes": entries}
        elif kind == "instant-ngp":
            entries = [_ngp_entry(keyframe) for keyframe in self.keyframes]
            values = {"loop": self.closed, "time": 0.0, "path": entries}
        else:
            checks.number("fps", fps, low=1.0)
            frames = max(round((self.seconds or DEFAULT_SECONDS) * fps), 1)
            values = _nerfstudio_values(self._frames(frames), self.closed, fps, size)
        write_json(user_path(path), values)

    @classmethod
    def load(cls, path: str | Path) -> CameraPath:
        """Load a path from a JSON file in any of the formats that `save` supports.

        Args:
            path: JSON file.

        Returns:
            Loaded path.

        Raises:
            InputError: If the file is invalid; the message contains the field.
        """
        return read_path(read_fields(user_path(path)))

    def _spliced(self, index: int, *new: Keyframe) -> CameraPath:
        if not self.keyframes:
            raise InputError(
                f"keyframe {index} does not exist, because the path has no keyframes; add one first"
            )
        checks.number("keyframe", index, low=0, high=len(self.keyframes) - 1, whole=True)
        before, after = self.keyframes[:index], self.keyframes[index + 1 :]
        return replace(self, keyframes=(*before, *new, *after))

    def _frames(self, frames: int) -> list[Keyframe]:
        steps = frames if self.closed else max(frames - 1, 1)
        return [self.at(index / steps) for index in range(frames)]

    @cached_property
    def _timing(self) -> Timing:
        ends = [*self.keyframes, *(self.keyframes[:1] if self.closed else ())]
        seconds = [keyframe.seconds for keyframe in ends[1:]]
        return Timing(self._curve.lengths, seconds, [keyframe.ease for keyframe in ends])

    @cached_property
    def _curve(self) -> Curve:
        if not self.keyframes:
            raise InputError("the camera path has no keyframes; add one first")
        poses = np.stack([keyframe.pose for keyframe in self.keyframes])
        fov = np.array([keyframe.fov for keyframe in self.keyframes], np.float64)
        return Curve(poses[:, :, 3], quaternions(poses[:, :, :3]), fov, self.closed)


def read_path(file: Fields) -> CameraPath:
    """Read a camera path in any of the three formats."""
    if "camera_path" in file:
        return _read_nerfstudio(file)
    if "path" in file:
        keyframes = [_ngp_keyframe(fields) for fields in file.objects("path")]
        return CameraPath(keyframes, file.flag("loop", False))
    file.allow_only("schema", "closed", "keyframes")
    if file.number("schema") != SCHEMA:
        raise file.wrong("schema", f"{SCHEMA}, the only version that this nerfmac supports")
    closed = file.flag("closed")
    return CameraPath([_own_keyframe(fields) for fields in file.objects("keyframes")], closed)


def _nerfstudio_values(
    frames: Sequence[Keyframe], closed: bool, fps: float, size: tuple[int, int]
) -> dict[str, Any]:
    """Return the JSON values of every frame of a path in nerfstudio's format."""
    lenses = [{"fov": math.degrees(frame.fov), "aspect": size[0] / size[1]} for frame in frames]
    poses = [[*frame.pose.ravel().tolist(), 0.0, 0.0, 0.0, 1.0] for frame in frames]
    pairs = list(zip(poses, lenses, strict=True))
    return {
        "camera_type": PERSPECTIVE,
        "render_width": size[0],
        "render_height": size[1],
        "fps": fps,
        "seconds": len(frames) / fps,
        "is_cycle": closed,
        "smoothness_value": 0.0,
        "keyframes": [{"matrix": pose, **lens} for pose, lens in pairs],
        "camera_path": [{"camera_to_world": pose, **lens} for pose, lens in pairs],
    }


def _own_keyframe(fields: Fields) -> Keyframe:
    fields.allow_only("pose", "fov", "seconds", "ease")
    pose, fov = np.array(fields.table("pose", (3,), 4)), fields.number("fov")
    seconds = fields.number("seconds") if "seconds" in fields else None
    ease = fields.flag("ease", False)
    with prefix_errors(fields.where):
        return Keyframe(pose, fov, seconds, ease)


def _own_entry(keyframe: Keyframe) -> dict[str, Any]:
    given = {"seconds": keyframe.seconds, "ease": keyframe.ease}
    given = {key: value for key, value in given.items() if value}  # The others are the defaults.
    return {"pose": keyframe.pose.tolist(), "fov": keyframe.fov, **given}


def _read_nerfstudio(file: Fields) -> CameraPath:
    if "camera_type" in file and file.text("camera_type") != PERSPECTIVE:
        raise file.wrong("camera_type", f'"{PERSPECTIVE}"')
    frames = file.objects("camera_path")
    closed = file.flag("is_cycle", False)
    intervals = len(frames) if closed else max(len(frames) - 1, 1)
    fps = file.number("fps", above=0) if "fps" in file else None
    seconds = file.number("seconds", len(frames) / (fps or 24.0), above=0) / intervals
    has_size = "render_width" in file and "render_height" in file
    size = (file.count("render_width"), file.count("render_height")) if has_size else None
    keyframes = []
    for frame in frames:
        pose = _matrix(frame, "camera_to_world")[:3]
        fov = math.radians(frame.number("fov"))
        with prefix_errors(frame.where):
            keyframes.append(Keyframe(pose, fov, seconds))
    return CameraPath(keyframes, closed, fps, size)


def _matrix(frame: Fields, key: str) -> Float64Array:
    """Return a matrix of 4 columns, written as rows or as a list of 16 numbers."""
    value = frame.values.get(key)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return np.array(frame.table(key, (3, 4), 4))
    return np.array(frame.numbers(key, 16)).reshape(4, 4)


def _ngp_keyframe(fields: Fields) -> Keyframe:
    x, y, z, w = fields.numbers("R", 4)
    quaternion = np.array([[w, x, y, z]])
    length = float(np.linalg.norm(quaternion))
    if abs(length - 1.0) > UNIT_WITHIN:
        raise fields.wrong("R", "a quaternion of length one")
    rotation = matrices(quaternion / length)[0] * NGP_FLIP
    pose: Float64Array = np.empty((3, 4))
    pose[NGP_AXES] = np.c_[rotation, np.array(fields.numbers("T", 3))]
    fov = math.radians(fields.number("fov"))
    with prefix_errors(fields.where):
        return Keyframe(pose, fov, NGP_SECONDS)


def _ngp_entry(keyframe: Keyframe) -> dict[str, Any]:
    pose = keyframe.pose[NGP_AXES]
    w, x, y, z = quaternions((pose[:, :3] * NGP_FLIP)[None])[0].tolist()
    used = {"R": [x, y, z, w], "T": pose[:, 3].tolist(), "fov": math.degrees(keyframe.fov)}
    unused = {"scale": 1.0, "slice": 0.0, "aperture_size": 0.0, "glow_mode": 0}
    return {**used, **unused, "glow_y_cutoff": 0.0}
