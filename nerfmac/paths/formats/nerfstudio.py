"""nerfstudio's camera_path.json, as its viewer writes it and `ns-render camera-path` reads it.

    camera_path    every frame: camera_to_world, 16 numbers row by row, OpenGL's axes as here;
                   fov, vertical, in degrees; aspect
    keyframes      the keyframes that its viewer edits: the same with `matrix`
    fps, seconds, is_cycle, render_width, render_height

The frames are read, not the keyframes: so the path is the one that nerfstudio renders, whatever its
spline. Positions are those of nerfstudio's own scene space; `run.load_path` moves them into the
scene of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees, radians
from typing import Any, NamedTuple

import numpy as np

from nerfmac.common.checks import prefix_errors
from nerfmac.common.json_reader import Fields
from nerfmac.paths.keyframe import Keyframe

PERSPECTIVE = "perspective"


class StudioPath(NamedTuple):
    """The arguments of `CameraPath`."""

    keyframes: list[Keyframe]
    closed: bool
    fps: float | None
    size: tuple[int, int] | None


def read(file: Fields) -> StudioPath:
    """Return the file's frames as keyframes, and its video's rate and size. Raises InputError."""
    if "camera_type" in file and file.text("camera_type") != PERSPECTIVE:
        raise file.wrong("camera_type", f'"{PERSPECTIVE}"')
    frames = file.objects("camera_path")
    closed = file.flag("is_cycle", False)
    intervals = len(frames) if closed else max(len(frames) - 1, 1)
    fps = file.number("fps", above=0) if "fps" in file else None
    seconds = file.number("seconds", len(frames) / (fps or 24.0), above=0) / intervals
    has_size = "render_width" in file and "render_height" in file
    size = (file.count("render_width"), file.count("render_height")) if has_size else None
    return StudioPath([_keyframe(fields, seconds) for fields in frames], closed, fps, size)


def values(
    frames: Sequence[Keyframe], closed: bool, fps: float, size: tuple[int, int]
) -> dict[str, Any]:
    """Return the path of these `frames` as JSON values; `size` is width and height in pixels."""
    lenses = [{"fov": degrees(frame.fov), "aspect": size[0] / size[1]} for frame in frames]
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


def _keyframe(fields: Fields, seconds: float) -> Keyframe:
    pose = np.array(fields.numbers("camera_to_world", 16)).reshape(4, 4)[:3]
    with prefix_errors(fields.where):
        return Keyframe(pose, radians(fields.number("fov")), seconds)
