"""instant-ngp's camera path, base_cam.json.

    path    the keyframes: R, a quaternion x, y, z, w of the camera-to-scene rotation; T, the
            position; fov, vertical, in degrees; scale, slice, aperture_size, unused here
    loop    whether the path is closed; absent in older files
    time    the time that instant-ngp's window shows

Its scene space has the axes y, z, x of ours, and its cameras look along +z with y down. All
keyframes are equally far apart in time. instant-ngp draws a B-spline, which passes near the
keyframes; here the path passes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees, radians
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import prefix_errors
from nerfmac.common.json_reader import Fields
from nerfmac.paths.keyframe import Keyframe
from nerfmac.paths.quaternions import matrices, quaternions

AXES = [1, 2, 0]
"""Indices of our axes that are its first, second and third."""

FLIP = np.array([1.0, -1.0, -1.0])
"""Factors from OpenGL's camera axes to its: y down, z forwards."""

SECONDS = 1.0
"""Time between keyframes; the file only says that all are equal."""

UNIT_WITHIN = 1e-2
"""Largest error of a quaternion's length: files are written in short decimals."""


def read(file: Fields) -> tuple[list[Keyframe], bool]:
    """Return the file's keyframes, and whether the path is closed. Raises InputError."""
    return [_keyframe(fields) for fields in file.objects("path")], file.flag("loop", False)


def values(keyframes: Sequence[Keyframe], closed: bool) -> dict[str, Any]:
    """Return the path as JSON values."""
    return {"loop": closed, "time": 0.0, "path": [_values(keyframe) for keyframe in keyframes]}


def _keyframe(fields: Fields) -> Keyframe:
    x, y, z, w = fields.numbers("R", 4)
    quaternion = np.array([[w, x, y, z]])
    length = float(np.linalg.norm(quaternion))
    if abs(length - 1.0) > UNIT_WITHIN:
        raise fields.wrong("R", "a quaternion of length one")
    rotation = matrices(quaternion / length)[0] * FLIP
    pose: npt.NDArray[np.float64] = np.empty((3, 4))
    pose[AXES] = np.c_[rotation, np.array(fields.numbers("T", 3))]
    with prefix_errors(fields.where):
        return Keyframe(pose, radians(fields.number("fov")), SECONDS)


def _values(keyframe: Keyframe) -> dict[str, Any]:
    pose = keyframe.pose[AXES]
    w, x, y, z = quaternions((pose[:, :3] * FLIP)[None])[0].tolist()
    unused = {"scale": 1.0, "slice": 0.0, "aperture_size": 0.0, "glow_mode": 0}
    unused["glow_y_cutoff"] = 0.0
    return {"R": [x, y, z, w], "T": pose[:, 3].tolist(), "fov": degrees(keyframe.fov), **unused}
