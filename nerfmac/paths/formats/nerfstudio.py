"""nerfstudio's camera_path.json, as its viewer writes it and `ns-render camera-path` reads it.

    camera_path    every frame: camera_to_world, 16 numbers row by row, with OpenGL's axes as here;
                   fov, vertical, in degrees; aspect
    keyframes      those that the viewer lets one edit: the same with `matrix`
    fps, seconds, is_cycle, render_width, render_height

The frames are read, not the keyframes: so the path is the one that nerfstudio renders, whatever its
spline. Positions are those of nerfstudio's own scene space, and are taken as they are.
`run.load_path` moves them into the scene of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees, radians
from typing import Any, NamedTuple

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.paths.keyframe import Keyframe

PERSPECTIVE = "perspective"


class StudioPath(NamedTuple):
    """What the file holds, as `CameraPath` takes it."""

    keyframes: list[Keyframe]
    closed: bool
    fps: float | None
    size: tuple[int, int] | None


def read(file: Fields) -> StudioPath:
    """The frames in the file as keyframes, and its film's rate and size. Raises `InputError`."""
    if "camera_type" in file and file.text("camera_type") != PERSPECTIVE:
        raise file.wrong("camera_type", f'"{PERSPECTIVE}"')
    frames = file.objects("camera_path")
    closed = file.flag("is_cycle", False)
    ways = len(frames) if closed else max(len(frames) - 1, 1)
    fps = file.number("fps", above=0) if "fps" in file else None
    seconds = file.number("seconds", len(frames) / (fps or 24.0), above=0)
    has_size = "render_width" in file and "render_height" in file
    size = (file.count("render_width"), file.count("render_height")) if has_size else None
    return StudioPath([_keyframe(each, seconds / ways) for each in frames], closed, fps, size)


def values(
    frames: Sequence[Keyframe], closed: bool, fps: float, size: tuple[int, int]
) -> dict[str, Any]:
    """The path of these `frames` as JSON values; `size` is a frame's width and height in pixels."""
    aspect = size[0] / size[1]
    cameras = [
        {"camera_to_world": _matrix(each), "fov": degrees(each.fov), "aspect": aspect}
        for each in frames
    ]
    keyframes = [{**each, "matrix": each["camera_to_world"]} for each in cameras]
    for each in keyframes:
        del each["camera_to_world"]
    return {
        "camera_type": PERSPECTIVE,
        "render_width": size[0],
        "render_height": size[1],
        "fps": fps,
        "seconds": len(frames) / fps,
        "is_cycle": closed,
        "smoothness_value": 0.0,
        "keyframes": keyframes,
        "camera_path": cameras,
    }


def _keyframe(fields: Fields, seconds: float) -> Keyframe:
    pose = np.array(fields.numbers("camera_to_world", 16)).reshape(4, 4)[:3]
    try:
        return Keyframe(pose, radians(fields.number("fov")), seconds)
    except InputError as error:
        raise InputError(f"{fields.where}: {error}") from error


def _matrix(keyframe: Keyframe) -> list[float]:
    return [*keyframe.pose.ravel().tolist(), 0.0, 0.0, 0.0, 1.0]
