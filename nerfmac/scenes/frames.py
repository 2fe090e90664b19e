"""What both JSON formats have in common: the entries of `frames`, their lenses and their poses.

Both give camera-to-world matrices with OpenGL's axes, as this package does, so axes stay as they
are. A `Placement` moves the positions into scene space.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.checks import InputError
from nerfmac.geometry.lenses import Lens, focal_length
from nerfmac.json_reader import Fields
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.pictures import Header
from nerfmac.scenes.shots import Shot, fitted, rigid

LENS_MODELS = ("OPENCV", "PINHOLE", "PERSPECTIVE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
_UNDISTORTED = "a lens of OpenCV's radial-tangential model: undistort the pictures first"
_ALPHA = "pictures that carry what is to be left out as alpha: masks are not read"
NOT_READ = {
    **dict.fromkeys(("is_fisheye", "latlong", "equirectangular", "ftheta_p0"), _UNDISTORTED),
    "fisheye_crop_radius": _UNDISTORTED,
    **dict.fromkeys(("mask_path", "mask_color"), _ALPHA),
    **dict.fromkeys(("white_transparent", "black_transparent"), _ALPHA),
    "rolling_shutter": "a shutter that opens for all rows at once",
    "from_na": "poses with OpenGL's axes",
}
"""Keys that change the meaning of a picture, and what is supported instead of them.

With the value false or 0 they are allowed. Other unknown keys, such as depth_file_path, only add
what this program does not use; they are ignored.
"""


class Entry(NamedTuple):
    """One element of `frames` whose picture exists, and the file, which has its defaults."""

    fields: Fields
    file: Fields
    name: str
    picture: Path


def entries_of(file: Fields, search: PictureSearch) -> tuple[list[Entry], list[Fields]]:
    """A file's frames in its order: those whose picture exists, and those without a picture."""
    entries, absent = [], []
    frames = file.objects("frames")
    names = [fields.text("file_path") for fields in frames]
    pictures = search.find_all(names, file.where)
    for fields, name, picture in zip(frames, names, pictures, strict=True):
        fields = replace(fields, where=f"{fields.where} ({name})")
        if picture is None:
            absent.append(fields)
        else:
            entries.append(Entry(fields, file, Path(name).as_posix(), picture))
    return entries, absent


def shot_of(entry: Entry, picture: Header) -> Shot:
    """The frame's picture with its camera; see `lens_of` and `pose_of` for InputError."""
    lens = fitted(lens_of(entry, picture), entry.picture, picture, entry.fields.where)
    return Shot(entry.picture, entry.name, lens, pose_of(entry.fields))


def pose_of(fields: Fields) -> npt.NDArray[np.float64]:
    """`transform_matrix` as (3, 4), with its rotation made exactly orthonormal.

    Raises InputError unless it is 4x4 or 3x4, finite, and rigid: a rotation and a position.
    """
    key = "transform_matrix"
    matrix = np.array(fields.table(key, rows=(3, 4), columns=4))
    if not np.allclose(matrix[3:], (0, 0, 0, 1), atol=1e-6):
        raise InputError(
            f"{fields.where}: {key} ends in {matrix[3].tolist()}; expected [0, 0, 0, 1]"
        )
    return rigid(matrix[:3], f"{fields.where}: {key}")


def lens_of(entry: Entry, picture: Header) -> Lens:
    """The lens of a frame, for the size that it names or else the picture's.

    The frame's values override those of its file. Raises InputError for another lens model and
    values out of range.
    """
    for fields in (entry.fields, entry.file):
        _refuse_what_is_not_read(fields)
    width = _source(entry, "w").count("w", picture.width)
    height = _source(entry, "h").count("h", picture.height)
    across, down = _focal(entry, "x", width), _focal(entry, "y", height)
    fl_x, fl_y = across or down, down or across  # square pixels unless both are given
    if fl_x is None or fl_y is None:
        raise InputError(f"{entry.fields.where}: no focal length; expected fl_x or camera_angle_x")
    centre = {"cx": width / 2, "cy": height / 2}
    defaults = centre | dict.fromkeys(("k1", "k2", "k3", "k4", "p1", "p2"), 0.0)
    rest: dict[str, Any] = {
        key: _source(entry, key).number(key, value) for key, value in defaults.items()
    }
    return Lens(width, height, fl_x, fl_y, **rest)


def _refuse_what_is_not_read(fields: Fields) -> None:
    if "camera_model" in fields and fields.text("camera_model").upper() not in LENS_MODELS:
        raise fields.wrong("camera_model", "one of " + ", ".join(LENS_MODELS))
    for key, expected in NOT_READ.items():
        value = fields.values.get(key)
        if any(value) if isinstance(value, list) else value:
            raise fields.wrong(key, expected)


def _source(entry: Entry, key: str) -> Fields:
    return entry.fields if key in entry.fields else entry.file


def _focal(entry: Entry, axis: str, size: int) -> float | None:
    for fields in (entry.fields, entry.file):
        if f"fl_{axis}" in fields:
            return fields.number(f"fl_{axis}", above=0)
        key = f"camera_angle_{axis}"
        if key in fields:
            return focal_length(f"{fields.where}: {key}", fields.number(key), size)
    return None
