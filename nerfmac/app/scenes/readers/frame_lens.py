"""Camera intrinsics of a frame in a JSON file, with the keys of instant-ngp and nerfstudio.

Values of a frame take precedence over values of the file. If a value is obviously wrong, as in some
published files, the value is corrected and a warning is logged.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import pi, tan
from typing import Any

from nerfmac.app.scenes.images import Header
from nerfmac.common.checks import InputError, prefix_errors
from nerfmac.common.json_reader import Fields
from nerfmac.geometry.lenses import Lens, focal_length

LENS_MODELS = ("OPENCV", "PINHOLE", "PERSPECTIVE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
FISHEYE_MODELS = ("OPENCV_FISHEYE", "RADIAL_FISHEYE", "SIMPLE_RADIAL_FISHEYE")
MATRICES = ("K", "intrinsics", "intrinsic_matrix")
"""Keys of the intrinsics matrix [[fl_x, 0, cx], [0, fl_y, cy], [0, 0, 1]]."""
MISSPELLED = {"f1_x": "fl_x", "f1_y": "fl_y", "fx": "fl_x", "fy": "fl_y"}
NEAR_CENTER = 0.1
"""Maximum distance of a central principal point from the image center, relative to the image
size."""
RESIZED = (2, 4, 8, 3, 1 / 2, 1 / 4, 1 / 8, 1 / 3)
"""Possible ratios of the image size to the size that the intrinsics are for, in the order of the
trials."""
TINY = 8
"""In images with a larger shorter side, focal lengths up to 2 and principal points up to 1 are
rejected, because they look like fractions of the image size instead of pixels."""
SQUARE = 1.2
"""Ratio of fl_x and fl_y that causes a warning, because pixels of real cameras are square."""
CONTRADICTION = 0.02
"""Maximum relative difference between the focal length and the one of the field of view."""

log = logging.getLogger("nerfmac")


def lens_of(frame: Fields, file: Fields, image: Header, warned: set[str]) -> Lens:
    """Return the camera intrinsics of a frame, for the image size in the JSON file or else in the
    header `image`. `file` contains defaults for all frames. `warned` contains the kinds of warnings
    that have been logged for the file and is updated."""
    keys = _LensKeys(_normalized(frame, warned), _normalized(file, warned), image, warned)
    width, height = keys.size()
    fl_x, fl_y = keys.focal_lengths(width, height)
    defaults = {"cx": width / 2, "cy": height / 2}
    defaults |= dict.fromkeys(("k1", "k2", "k3", "k4", "p1", "p2"), 0.0)
    rest: dict[str, Any] = {key: keys.number(key, value) for key, value in defaults.items()}
    is_fisheye = keys.is_fisheye()
    if min(width, height) > TINY and (fl_x <= 2 or 0 <= max(rest["cx"], rest["cy"]) <= 1):
        raise InputError(
            f"{frame.where}: fl_x is {fl_x:g}, cx {rest['cx']:g}, and cy {rest['cy']:g}; expected "
            f"pixels of a {width}x{height} image, not fractions of its sides"
        )
    with prefix_errors(frame.where):
        return Lens(width, height, fl_x, fl_y, **rest, is_fisheye=is_fisheye)


def _normalized(fields: Fields, warned: set[str]) -> Fields:
    """Return the fields with fl_x, fl_y, cx, and cy read from misspelled keys and from matrices."""
    added: dict[str, Any] = {}
    for key, name in MISSPELLED.items():
        if key in fields:
            added[name] = fields.values[key]
            _warn(fields.where, f"{key} is interpreted as {name}", warned)
    for key in MATRICES:
        if key in fields:
            rows = fields.values[key]
            columns = 4 if isinstance(rows, list) and len(rows) == 4 else 3
            table = fields.table(key, rows=(columns,), columns=columns)
            (fl_x, skew, cx), (_, fl_y, cy) = (row[:3] for row in table[:2])
            if abs(skew) > 1e-3 * abs(fl_x) or min(fl_x, fl_y) <= 0:
                raise fields.wrong(key, "positive focal lengths and no skew")
            added |= {"fl_x": fl_x, "fl_y": fl_y, "cx": cx, "cy": cy}
    return Fields({**added, **fields.values}, fields.where)


@dataclass(frozen=True)
class _LensKeys:
    """Lookup of intrinsics by key, in a frame or in its file."""

    frame: Fields
    file: Fields
    image: Header
    warned: set[str]

    def is_fisheye(self) -> bool:
        if fields := self._with("camera_model"):
            model = fields.text("camera_model").upper()
            if model not in LENS_MODELS + FISHEYE_MODELS:
                known = ", ".join(LENS_MODELS + FISHEYE_MODELS)
                raise fields.wrong("camera_model", f"one of {known}")
            if model in FISHEYE_MODELS:
                return True
        fields = self._with("is_fisheye")
        return fields is not None and fields.flag("is_fisheye")

    def size(self) -> tuple[int, int]:
        """Return the width and height of the image that the intrinsics are for."""
        actual = self.image.width, self.image.height
        with_w, with_h = self._with("w"), self._with("h")
        named = (
            (with_w or self.file).count("w", actual[0]),
            (with_h or self.file).count("h", actual[1]),
        )
        center = self.number("cx", named[0] / 2), self.number("cy", named[1] / 2)
        if not with_w and not with_h and not _is_middle(center, actual):
            return self._size_by_center(center)
        if named != actual and _is_middle(center, actual) and not _is_middle(center, named):
            self._warn(
                f"w and h are {named[0]}x{named[1]}, but cx and cy are in the center of the actual "
                f"images, such as {actual[0]}x{actual[1]}; using the actual size"
            )
            return actual
        return named

    def _size_by_center(self, center: tuple[float, float]) -> tuple[int, int]:
        """Return the image size times the factor in RESIZED for which (cx, cy) is the center."""
        width, height = self.image.width, self.image.height
        for factor in RESIZED:
            size = round(width * factor), round(height * factor)
            if _is_middle(center, size):
                self._warn(
                    f"cx and cy, {center[0]:g} and {center[1]:g}, are in the center of "
                    f"{size[0]}x{size[1]} images; scaling the intrinsics to {width}x{height}"
                )
                return size
        return width, height

    def focal_lengths(self, width: int, height: int) -> tuple[float, float]:
        by_width, by_height = self._focal("x", width), self._focal("y", height)
        fl_x, fl_y = by_width or by_height, by_height or by_width  # Square pixels unless both set.
        if fl_x is None or fl_y is None:
            raise InputError(
                f"{self.frame.where}: no focal length; expected fl_x or camera_angle_x"
            )
        if not 1 / SQUARE < fl_x / fl_y < SQUARE:
            self._warn(
                f"fl_x is {fl_x:g} and fl_y is {fl_y:g}, so pixels are not square; if renderings "
                "are stretched, one of the values is wrong"
            )
        return fl_x, fl_y

    def number(self, key: str, default: float) -> float:
        return (self._with(key) or self.file).number(key, default)

    def _focal(self, axis: str, size: int) -> float | None:
        angle, length = f"camera_angle_{axis}", f"fl_{axis}"
        for fields in (self.frame, self.file):
            if length in fields:
                focal = fields.number(length, above=0)
                if angle in fields:
                    self._compare(focal, length, fields.number(angle), angle, size)
                return focal
            if angle in fields:
                return focal_length(f"{fields.where}: {angle}", fields.number(angle), size)
        return None

    def _compare(self, focal: float, length: str, field: float, angle: str, size: int) -> None:
        expected = size / (2 * tan(field / 2)) if 0 < field < pi else 0.0
        if not self.is_fisheye() and abs(focal - expected) > CONTRADICTION * focal:
            self._warn(
                f"{angle} is {field:.5g}, which is a focal length of {expected:.5g} for {size} "
                f"pixels, but {length} is {focal:.5g}; using {length}. One of the two is wrong"
            )

    def _with(self, key: str) -> Fields | None:
        """Return the frame or else the file, whichever contains `key`, or None."""
        return next((fields for fields in (self.frame, self.file) if key in fields), None)

    def _warn(self, what: str) -> None:
        _warn(self.frame.where, what, self.warned)


def _warn(where: str, what: str, warned: set[str]) -> None:
    """Log a warning, unless a warning with the same first word has been logged for this file."""
    kind = what.split(maxsplit=1)[0]
    if kind not in warned:
        warned.add(kind)
        log.warning(f"{where}: {what}")


def _is_middle(center: tuple[float, float], size: tuple[int, int]) -> bool:
    sides = zip(center, size, strict=True)
    return all(abs(c - side / 2) < NEAR_CENTER * side for c, side in sides)
