"""instant-ngp's camera path, base_cam.json.

    path    the keyframes: R, a quaternion x, y, z, w of the camera-to-scene rotation; T, the place;
            fov, vertical, in degrees; scale, slice, aperture_size, which have no meaning here
    loop    whether it is closed; older files have none
    time    where on the path its window stands

Its scene space has the axes y, z, x of ours, and its cameras look along +z with y down. All ways
take equal times. instant-ngp draws a B-spline, which passes near the keyframes and not through
them; here the path passes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees, radians
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.paths.keyframe import Keyframe
from nerfmac.paths.quaternions import matrices, quaternions

AXES = [1, 2, 0]
"""Which of our axes are its first, second and third."""

FLIP = np.array([1.0, -1.0, -1.0])
"""From OpenGL's camera axes to its: y down, z forwards."""

WAY_SECONDS = 1.0
"""From keyframe to keyframe; the file says only that all take equally long."""

UNIT = 1e-2
"""How far a quaternion's length may be from one: files are written in short decimals."""


def read(file: Fields) -> tuple[list[Keyframe], bool]:
    """The keyframes in the file, and whether the path is closed. Raises `InputError`."""
    return [_keyframe(each) for each in file.objects("path")], file.flag("loop", False)


def values(keyframes: Sequence[Keyframe], closed: bool) -> dict[str, Any]:
    """The path as JSON values."""
    return {"loop": closed, "time": 0.0, "path": [_values(each) for each in keyframes]}


def _keyframe(fields: Fields) -> Keyframe:
    x, y, z, w = fields.numbers("R", 4)
    quaternion = np.array([[w, x, y, z]])
    length = float(np.linalg.norm(quaternion))
    if abs(length - 1.0) > UNIT:
        raise fields.wrong("R", "a quaternion of length one")
    rotation = matrices(quaternion / length)[0] * FLIP
    theirs = np.c_[rotation, np.array(fields.numbers("T", 3))]
    pose: npt.NDArray[np.float64] = np.empty((3, 4))
    pose[AXES] = theirs
    try:
        return Keyframe(pose, radians(fields.number("fov")), WAY_SECONDS)
    except InputError as error:
        raise InputError(f"{fields.where}: {error}") from error


def _values(keyframe: Keyframe) -> dict[str, Any]:
    pose = keyframe.pose[AXES]
    w, x, y, z = quaternions((pose[:, :3] * FLIP)[None])[0].tolist()
    return {
        "R": [x, y, z, w],
        "T": pose[:, 3].tolist(),
        "fov": degrees(keyframe.fov),
        "scale": 1.0,
        "slice": 0.0,
        "aperture_size": 0.0,
        "glow_mode": 0,
        "glow_y_cutoff": 0.0,
    }
