"""JSON formats of camera paths in nerfmac, nerfstudio, and instant-ngp.

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

from collections.abc import Sequence
from math import degrees, radians
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.paths.curve import matrices, quaternions
from nerfmac.app.paths.keyframe import Keyframe
from nerfmac.common import Fields, Float64Array, prefix_errors

SCHEMA = 1  # Version of nerfmac's format.
PERSPECTIVE = "perspective"  # The only supported `camera_type` of nerfstudio files.
NGP_AXES = [1, 2, 0]  # Scene axes of nerfmac that are instant-ngp's first, second, and third.
NGP_FLIP = np.array([1.0, -1.0, -1.0])  # Camera axes of instant-ngp: y down, z forward.
NGP_SECONDS = 1.0  # Assumed time between two keyframes. The files contain no times.
UNIT_WITHIN = 1e-2  # Tolerance of the length of a quaternion, for rounded numbers.


class PathFile(NamedTuple):
    """Arguments of `CameraPath` that a file contains."""

    keyframes: list[Keyframe]
    closed: bool
    fps: float | None = None
    size: tuple[int, int] | None = None


def read_path(file: Fields) -> PathFile:
    """Read a camera path in any of the three formats."""
    if "camera_path" in file:
        return _read_nerfstudio(file)
    if "path" in file:
        keyframes = [_ngp_keyframe(fields) for fields in file.objects("path")]
        return PathFile(keyframes, file.flag("loop", False))
    file.allow_only("schema", "closed", "keyframes")
    if file.number("schema") != SCHEMA:
        raise file.wrong("schema", f"{SCHEMA}, the only version that this nerfmac supports")
    closed = file.flag("closed")
    return PathFile([_own_keyframe(fields) for fields in file.objects("keyframes")], closed)


def nerfmac_values(keyframes: Sequence[Keyframe], closed: bool) -> dict[str, Any]:
    """Return the JSON values of a path in nerfmac's format."""
    return {"schema": SCHEMA, "closed": closed, "keyframes": [_own_entry(k) for k in keyframes]}


def nerfstudio_values(
    frames: Sequence[Keyframe], closed: bool, fps: float, size: tuple[int, int]
) -> dict[str, Any]:
    """Return the JSON values of every frame of a path in nerfstudio's format."""
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


def ngp_values(keyframes: Sequence[Keyframe], closed: bool) -> dict[str, Any]:
    """Return the JSON values of a path in instant-ngp's format."""
    return {"loop": closed, "time": 0.0, "path": [_ngp_entry(keyframe) for keyframe in keyframes]}


def _own_keyframe(fields: Fields) -> Keyframe:
    fields.allow_only("pose", "fov", "seconds", "ease")
    pose, fov = np.array(fields.table("pose", (3,), 4)), fields.number("fov")
    seconds = fields.number("seconds") if "seconds" in fields else None
    ease = fields.flag("ease", False)
    with prefix_errors(fields.where):
        return Keyframe(pose, fov, seconds, ease)


def _own_entry(keyframe: Keyframe) -> dict[str, Any]:
    entry: dict[str, Any] = {"pose": keyframe.pose.tolist(), "fov": keyframe.fov}
    if keyframe.seconds is not None:
        entry["seconds"] = keyframe.seconds
    if keyframe.ease:
        entry["ease"] = True
    return entry


def _read_nerfstudio(file: Fields) -> PathFile:
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
        fov = radians(frame.number("fov"))
        with prefix_errors(frame.where):
            keyframes.append(Keyframe(pose, fov, seconds))
    return PathFile(keyframes, closed, fps, size)


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
    fov = radians(fields.number("fov"))
    with prefix_errors(fields.where):
        return Keyframe(pose, fov, NGP_SECONDS)


def _ngp_entry(keyframe: Keyframe) -> dict[str, Any]:
    pose = keyframe.pose[NGP_AXES]
    w, x, y, z = quaternions((pose[:, :3] * NGP_FLIP)[None])[0].tolist()
    unused = {"scale": 1.0, "slice": 0.0, "aperture_size": 0.0, "glow_mode": 0}
    unused["glow_y_cutoff"] = 0.0
    return {"R": [x, y, z, w], "T": pose[:, 3].tolist(), "fov": degrees(keyframe.fov), **unused}
