"""What both JSON formats have in common: the entries of `frames`, their lenses and their poses.

Both give camera-to-world matrices with OpenGL's axes, as this package does, so axes stay as they
are. A `Placement` moves the positions into scene space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens, focal_length
from nerfmac.json_reader import Fields
from nerfmac.scenes.pictures import Header, find, inspect
from nerfmac.scenes.placement import Placement
from nerfmac.scenes.scene import Frame

RIGID_WITHIN = 1e-2
"""How far R^T R may be from 1. A smaller difference is rounding, and is removed."""

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


def entries_of(file: Fields, folder: Path) -> tuple[list[Entry], list[Fields]]:
    """A file's frames in its order: those whose picture exists, and those without a picture."""
    entries, absent = [], []
    for fields in file.objects("frames"):
        given = fields.text("file_path")
        fields = replace(fields, where=f"{fields.where} ({given})")
        picture = find(folder, given)
        if picture is None:
            absent.append(fields)
        else:
            entries.append(Entry(fields, file, Path(given).as_posix(), picture))
    return entries, absent


def inspect_all(entries: Sequence[Entry]) -> Header:
    """The common size of all pictures, and whether any has alpha, from their headers.

    Raises InputError that names two files if their sizes differ.
    """
    first = inspect(entries[0].picture)
    has_alpha = first.has_alpha
    for entry in entries[1:]:
        header = inspect(entry.picture)
        has_alpha |= header.has_alpha
        if (header.width, header.height) != (first.width, first.height):
            raise InputError(
                f"{entry.picture} is {header.width}x{header.height} pixels but "
                f"{entries[0].picture} is {first.width}x{first.height}; "
                "expected one size for all pictures of a scene"
            )
    return Header(first.width, first.height, has_alpha)


def frame_of(entry: Entry, picture: Header, placement: Placement) -> Frame:
    """The frame, with its lens scaled to the picture and its pose moved into the scene."""
    pose = placement.apply(pose_of(entry.fields))
    return Frame(Camera(lens_of(entry, picture), pose), entry.picture, entry.name)


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
    rotation = matrix[:3, :3]
    error = float(np.abs(rotation.T @ rotation - np.eye(3)).max())
    if error > RIGID_WITHIN:
        raise InputError(
            f"{fields.where}: {key} is not rigid: its columns are off by {error:.3g} from "
            "length one and right angles; expected a rotation and a position"
        )
    if np.linalg.det(rotation) < 0:
        raise InputError(f"{fields.where}: {key} mirrors space; expected a rotation")
    left, _, right = np.linalg.svd(rotation)
    return np.concatenate([left @ right, matrix[:3, 3:]], axis=1)


def lens_of(entry: Entry, picture: Header) -> Lens:
    """The lens of a frame, scaled to the picture. The frame's values override those of its file.

    Raises InputError for another lens model, values out of range, and a lens whose picture size has
    not the picture's aspect.
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
    rest = {key: _source(entry, key).number(key, value) for key, value in defaults.items()}
    lens = Lens(width, height, fl_x, fl_y, **rest)
    return _fitted(lens, picture, entry)


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


def _fitted(lens: Lens, picture: Header, entry: Entry) -> Lens:
    # Halving an odd size loses up to a pixel on either side, so the aspects may differ a little.
    skew = abs(picture.width * lens.height - picture.height * lens.width)
    if skew > lens.width + lens.height:
        raise InputError(
            f"{entry.picture} is {picture.width}x{picture.height} pixels but {entry.fields.where} "
            f"has a lens for {lens.width}x{lens.height}; expected that shape"
        )
    return lens.scaled(picture.width, picture.height)
