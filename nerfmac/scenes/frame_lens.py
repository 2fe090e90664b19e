"""The lens of one entry of a JSON file's `frames`, in the keys of instant-ngp and nerfstudio.

A frame's own values go before the file's. Files in the wild have some of them wrong in ways that
can be told: these are read, and a line says what was done.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.geometry.lenses import Lens, focal_length
from nerfmac.scenes.pictures import Header

LENS_MODELS = ("OPENCV", "PINHOLE", "PERSPECTIVE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
FISHEYE_MODELS = ("OPENCV_FISHEYE", "RADIAL_FISHEYE", "SIMPLE_RADIAL_FISHEYE")
MATRICES = ("K", "intrinsics", "intrinsic_matrix")
"""Keys under which scripts write the matrix [[fl_x, 0, cx], [0, fl_y, cy], [0, 0, 1]]."""
MISSPELT = {"f1_x": "fl_x", "f1_y": "fl_y", "fx": "fl_x", "fy": "fl_y"}
NEAR_CENTRE = 0.1
"""A principal point is as near to the middle of its picture, in widths and heights."""
RESIZED = (2, 4, 8, 3, 1 / 2, 1 / 4, 1 / 8, 1 / 3)
"""How many times larger than their files pictures may have been when their lens was found."""
TINY = 8
"""Pixels of a side, up to which a lens may be as short as a pixel or two."""
SQUARE = 1.2
"""Pixels whose sides differ by more are worth a line: lenses of cameras have square ones."""

log = logging.getLogger("nerfmac")


def lens_of(frame: Fields, file: Fields, picture: Header, said: set[str]) -> Lens:
    """The lens of `frame`, for the size that it or its `file` names, or else the picture's.

    What `said` has already is not said again. Raises InputError for another lens model and values
    out of range.
    """
    given = _Lens(_spelt_out(frame, said), _spelt_out(file, said), picture, said)
    width, height = given.size()
    fl_x, fl_y = given.focal_lengths(width, height)
    defaults = {"cx": width / 2, "cy": height / 2}
    defaults |= dict.fromkeys(("k1", "k2", "k3", "k4", "p1", "p2"), 0.0)
    rest: dict[str, Any] = {key: given.number(key, value) for key, value in defaults.items()}
    is_fisheye = given.is_fisheye()
    if min(width, height) > TINY and (fl_x <= 2 or 0 <= max(rest["cx"], rest["cy"]) <= 1):
        raise InputError(
            f"{frame.where}: fl_x is {fl_x:g}, cx {rest['cx']:g} and cy {rest['cy']:g}; expected "
            f"pixels of {width}x{height}, not parts of the picture's sides"
        )
    try:
        return Lens(width, height, fl_x, fl_y, **rest, is_fisheye=is_fisheye)
    except InputError as error:
        raise InputError(f"{frame.where}: {error}") from error


def _spelt_out(fields: Fields, said: set[str]) -> Fields:
    """The fields, with what a matrix or a misspelt key says under its own name, if that is absent.

    A matrix may have a fourth row and column.
    """
    found: dict[str, Any] = {}
    for key, name in MISSPELT.items():
        if key in fields:
            found[name] = fields.values[key]
            _say(fields.where, f"{key} is taken for {name}", said)
    for key in MATRICES:
        if key in fields:
            rows = fields.values[key]
            columns = 4 if isinstance(rows, list) and len(rows) == 4 else 3
            table = fields.table(key, rows=(columns,), columns=columns)
            (fl_x, skew, cx), (_, fl_y, cy) = (row[:3] for row in table[:2])
            if abs(skew) > 1e-3 * abs(fl_x) or min(fl_x, fl_y) <= 0:
                raise fields.wrong(key, "positive focal lengths and no skew")
            found |= {"fl_x": fl_x, "fl_y": fl_y, "cx": cx, "cy": cy}
    return Fields({**found, **fields.values}, fields.where)


@dataclass(frozen=True)
class _Lens:
    """The values of a frame's lens, wherever they are."""

    frame: Fields
    file: Fields
    picture: Header
    said: set[str]

    def __contains__(self, key: str) -> bool:
        return self._with(key) is not None

    def is_fisheye(self) -> bool:
        known = LENS_MODELS + FISHEYE_MODELS
        if fields := self._with("camera_model"):
            model = fields.text("camera_model").upper()
            if model not in known:
                raise fields.wrong("camera_model", "one of " + ", ".join(known))
            if model in FISHEYE_MODELS:
                return True
        fields = self._with("is_fisheye")
        return fields is not None and fields.flag("is_fisheye")

    def size(self) -> tuple[int, int]:
        """Width and height of the picture that the lens is for."""
        own = self.picture.width, self.picture.height
        width, height = self._with("w") or self.file, self._with("h") or self.file
        given = width.count("w", own[0]), height.count("h", own[1])
        centre = self.number("cx", given[0] / 2), self.number("cy", given[1] / 2)
        if "w" not in self and "h" not in self and not _is_middle(centre, own):
            return self._size_by_centre(centre)
        if given != own and _is_middle(centre, own) and not _is_middle(centre, given):
            what = (
                f"w and h are {given[0]}x{given[1]}, but cx and cy are in the middle of the "
                f"pictures as they are, such as {own[0]}x{own[1]}; the lens is taken as for these"
            )
            _say(self.frame.where, what, self.said)
            return own
        return given

    def _size_by_centre(self, centre: tuple[float, float]) -> tuple[int, int]:
        """The size that the lens is for where only cx and cy can tell: the picture's, many times
        larger or smaller."""
        own = self.picture.width, self.picture.height
        for factor in RESIZED:
            size = round(own[0] * factor), round(own[1] * factor)
            if _is_middle(centre, size):
                what = (
                    f"cx and cy, {centre[0]:g} and {centre[1]:g}, are in the middle of pictures of "
                    f"{size[0]}x{size[1]} pixels; the lens is scaled to the {own[0]}x{own[1]} there"
                )
                _say(self.frame.where, what, self.said)
                return size
        return own

    def focal_lengths(self, width: int, height: int) -> tuple[float, float]:
        across, down = self._focal("x", width), self._focal("y", height)
        fl_x, fl_y = across or down, down or across  # square pixels unless both are given
        if fl_x is None or fl_y is None:
            raise InputError(
                f"{self.frame.where}: no focal length; expected fl_x or camera_angle_x"
            )
        if not 1 / SQUARE < fl_x / fl_y < SQUARE:
            what = (
                f"fl_x is {fl_x:g} and fl_y {fl_y:g}, so pixels are not square; they are taken as "
                "they are, and if pictures come out stretched one of them is wrong"
            )
            _say(self.frame.where, what, self.said)
        return fl_x, fl_y

    def number(self, key: str, default: float) -> float:
        return (self._with(key) or self.file).number(key, default)

    def _focal(self, axis: str, size: int) -> float | None:
        angle, length = f"camera_angle_{axis}", f"fl_{axis}"
        for fields in (self.frame, self.file):
            if length in fields:
                return fields.number(length, above=0)
            if angle in fields:
                return focal_length(f"{fields.where}: {angle}", fields.number(angle), size)
        return None

    def _with(self, key: str) -> Fields | None:
        """What has the key, the frame before its file."""
        return next((fields for fields in (self.frame, self.file) if key in fields), None)


def _say(where: str, what: str, said: set[str]) -> None:
    """Log `what` unless a line that begins as it does is among those `said`."""
    kind = what.split(maxsplit=1)[0]
    if kind not in said:
        said.add(kind)
        log.warning("%s: %s", where, what)


def _is_middle(centre: tuple[float, float], size: tuple[int, int]) -> bool:
    both = zip(centre, size, strict=True)
    return all(abs(c - side / 2) < NEAR_CENTRE * side for c, side in both)
