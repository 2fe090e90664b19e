"""nerfmac's file of a camera path: `schema`, `closed`, and `keyframes` as `Keyframe` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nerfmac.common.checks import prefix_errors
from nerfmac.common.json_reader import Fields
from nerfmac.paths.keyframe import Keyframe

SCHEMA = 1
"""Version of the JSON file's format."""


def read(file: Fields) -> tuple[list[Keyframe], bool]:
    """Return the file's keyframes, and whether the path is closed. Raises InputError."""
    file.allow_only("schema", "closed", "keyframes")
    if file.number("schema") != SCHEMA:
        raise file.wrong("schema", f"{SCHEMA}, the only one that this version reads")
    closed = file.flag("closed")
    return [_keyframe(fields) for fields in file.objects("keyframes")], closed


def values(keyframes: Sequence[Keyframe], closed: bool) -> dict[str, Any]:
    """Return the path as JSON values."""
    return {"schema": SCHEMA, "closed": closed, "keyframes": [_values(k) for k in keyframes]}


def _keyframe(fields: Fields) -> Keyframe:
    fields.allow_only("pose", "fov", "seconds", "ease")
    pose, fov = np.array(fields.table("pose", (3,), 4)), fields.number("fov")
    seconds = fields.number("seconds") if "seconds" in fields else None
    ease = fields.flag("ease", False)
    with prefix_errors(fields.where):
        return Keyframe(pose, fov, seconds, ease)


def _values(keyframe: Keyframe) -> dict[str, Any]:
    values: dict[str, Any] = {"pose": keyframe.pose.tolist(), "fov": keyframe.fov}
    if keyframe.seconds is not None:
        values["seconds"] = keyframe.seconds
    if keyframe.ease:
        values["ease"] = True
    return values
