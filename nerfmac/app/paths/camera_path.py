"""`CameraPath`, a smooth path through keyframes that can be saved as a JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from nerfmac.app.paths.curve import Curve, Timing, matrices, quaternions
from nerfmac.app.paths.formats import nerfmac_values, nerfstudio_values, ngp_values, read_path
from nerfmac.app.paths.keyframe import Keyframe, even_size
from nerfmac.common import Float64Array, InputError, checks, read_fields, user_path, write_json
from nerfmac.geometry import Camera

KINDS = ("nerfmac", "nerfstudio", "instant-ngp")  # Formats that `save` can write.
DEFAULT_SECONDS = 5.0  # Default duration in seconds of a path without timed keyframes.


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
            values = nerfmac_values(self.keyframes, self.closed)
        elif kind == "instant-ngp":
            values = ngp_values(self.keyframes, self.closed)
        else:
            checks.number("fps", fps, low=1.0)
            frames = max(round((self.seconds or DEFAULT_SECONDS) * fps), 1)
            values = nerfstudio_values(self._frames(frames), self.closed, fps, size)
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
        return cls(*read_path(read_fields(user_path(path))))

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
