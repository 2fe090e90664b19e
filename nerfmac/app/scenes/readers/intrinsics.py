"""Camera intrinsics in scene files: the camera models of COLMAP, which nerfstudio and other
programs also use in JSON files, and the keys of instant-ngp and nerfstudio.

A camera model can be read if all its parameters are parameters of `Lens`. Values of a frame take
precedence over values of the file. If a value is obviously wrong, as in some published files, the
value is corrected and a warning is logged.
"""

from dataclasses import dataclass
from math import pi, tan
from typing import Any

from nerfmac.common import Fields, InputError, log, prefix_errors
from nerfmac.geometry import Lens, focal_length

DISTORTION = ("k1", "k2", "k3", "k4", "p1", "p2")
PARAMETERS = {
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fl_x fl_y cx cy",
    "SIMPLE_RADIAL": "f cx cy k1",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fl_x fl_y cx cy k1 k2 p1 p2",
    "OPENCV_FISHEYE": "fl_x fl_y cx cy k1 k2 k3 k4",
    "FULL_OPENCV": "fl_x fl_y cx cy k1 k2 p1 p2 k3 d1 d2 d3",
    "FOV": "fl_x fl_y cx cy omega",
    "SIMPLE_RADIAL_FISHEYE": "f cx cy k1",
    "RADIAL_FISHEYE": "f cx cy k1 k2",
    "THIN_PRISM_FISHEYE": "fl_x fl_y cx cy k1 k2 p1 p2 k3 k4 sx1 sy1",
    "RAD_TAN_THIN_PRISM_FISHEYE": "fl_x fl_y cx cy k1 k2 k3 k4 k5 k6 p1 p2 sx1 sx2 sy1 sy2",
    "SIMPLE_DIVISION": "f cx cy division",
    "DIVISION": "fl_x fl_y cx cy division",
    "SIMPLE_FISHEYE": "f cx cy",
    "FISHEYE": "fl_x fl_y cx cy",
    "EUCM": "fl_x fl_y cx cy alpha beta",
    "EQUIRECTANGULAR": "w h",
}
"""Parameter names of each camera model, in the order of COLMAP's model IDs. d1 to d3 are the
denominator coefficients of FULL_OPENCV, which must be 0."""
_LENS = {"f", "fl_x", "fl_y", "cx", "cy", *DISTORTION, "d1", "d2", "d3"}
READ = tuple(model for model, names in PARAMETERS.items() if _LENS.issuperset(names.split()))
"""Camera models that can be read."""
ALIASES = {"PERSPECTIVE": "OPENCV"}  # Names in JSON files.
PANORAMAS = ("EQUIRECT", "SPHERICAL", "PANORAM", "OMNI", "VR180", "LATLONG", "360")
"""Words in the names of camera models for 360-degree images."""
PERSPECTIVE = (
    "perspective images: nerfmac does not read 360-degree images, so first cut each image into "
    "several perspective images, for example with panorama_sfm of COLMAP or with `ns-process-data "
    "images --camera-type equirectangular` of nerfstudio"
)
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
CONTRADICTION = 0.02
"""Maximum relative difference between the focal length and the one of the field of view."""


def is_fisheye_model(model: str, where: str) -> bool:
    """Return whether `model` is a fisheye model. Raise `InputError` if it cannot be read. `where`
    is the position in the file, for the error message."""
    model = ALIASES.get(model.upper(), model)
    if any(word in model.upper() for word in PANORAMAS):
        raise InputError(f"{where}: the camera model is {model}; expected {PERSPECTIVE}")
    if model.upper() not in READ:
        raise InputError(
            f"{where}: the camera model {model} is not supported; expected one of "
            f"{', '.join(READ)}: undistort the images, for example with COLMAP's "
            "image_undistorter, which writes images and a model with PINHOLE cameras"
        )
    return "FISHEYE" in model.upper()


def lens_of(frame: Fields, file: Fields, photo: tuple[int, int], warned: set[str]) -> Lens:
    """Return the camera intrinsics of a frame, for the image size in the JSON file or else the
    size `photo`. `file` contains defaults for all frames. `warned` contains the kinds of warnings
    that have been logged for the file and is updated."""
    keys = _LensKeys(_normalized(frame, warned), _normalized(file, warned), photo, warned)
    is_fisheye = keys.is_fisheye()
    width, height = keys.size()
    fl_x, fl_y = keys.focal_lengths(width, height)
    rest: dict[str, Any] = {"cx": width / 2, "cy": height / 2, **dict.fromkeys(DISTORTION, 0.0)}
    rest = {key: keys.number(key, default) for key, default in rest.items()}
    if min(width, height) > TINY and (fl_x <= 2 or 0 <= max(rest["cx"], rest["cy"]) <= 1):
        expected = f"pixels of a {width}x{height} image, not fractions of its sides"
        given = f"fl_x is {fl_x:g}, cx {rest['cx']:g}, and cy {rest['cy']:g}"
        raise InputError(f"{frame.where}: {given}; expected {expected}")
    with prefix_errors(frame.where):
        return Lens(width, height, fl_x, fl_y, **rest, is_fisheye=is_fisheye)


def _normalized(fields: Fields, warned: set[str]) -> Fields:
    """Return the fields with fl_x, fl_y, cx, and cy read from misspelled keys and from matrices."""
    added: dict[str, Any] = {}
    for key, name in MISSPELLED.items():
        if key in fields:
            added[name] = fields.values[key]
            warn(fields.where, f"{key} is interpreted as {name}", warned)
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
    photo: tuple[int, int]
    warned: set[str]

    def is_fisheye(self) -> bool:
        fields = self._with("camera_model")
        if "camera_model" in fields and is_fisheye_model(fields.text("camera_model"), fields.where):
            return True
        return self._with("is_fisheye").flag("is_fisheye", default=False)

    def size(self) -> tuple[int, int]:
        """Return the width and height of the image that the intrinsics are for."""
        actual = self.photo
        with_w, with_h = self._with("w"), self._with("h")
        named = with_w.count("w", actual[0]), with_h.count("h", actual[1])
        center = self.number("cx", named[0] / 2), self.number("cy", named[1] / 2)
        if "w" not in with_w and "h" not in with_h and not _is_middle(center, actual):
            for factor in RESIZED:
                size = round(actual[0] * factor), round(actual[1] * factor)
                if _is_middle(center, size):
                    self._warn(
                        f"cx and cy, {center[0]:g} and {center[1]:g}, are in the center of "
                        f"{size[0]}x{size[1]} images; scaling the intrinsics to "
                        f"{actual[0]}x{actual[1]}"
                    )
                    return size
            return actual
        if named != actual and _is_middle(center, actual) and not _is_middle(center, named):
            self._warn(
                f"w and h are {named[0]}x{named[1]}, but cx and cy are in the center of the actual "
                f"images, such as {actual[0]}x{actual[1]}; using the actual size"
            )
            return actual
        return named

    def focal_lengths(self, width: int, height: int) -> tuple[float, float]:
        by_width, by_height = self._focal("x", width), self._focal("y", height)
        fl_x, fl_y = by_width or by_height, by_height or by_width  # Square pixels unless both set.
        if fl_x is None or fl_y is None:
            where = self.frame.where
            raise InputError(f"{where}: no focal length; expected fl_x or camera_angle_x")
        return fl_x, fl_y

    def number(self, key: str, default: float) -> float:
        return self._with(key).number(key, default)

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

    def _with(self, key: str) -> Fields:
        """Return the frame if it contains `key`, or else the file."""
        return self.frame if key in self.frame else self.file

    def _warn(self, what: str) -> None:
        warn(self.frame.where, what, self.warned)


def warn(where: str, what: str, warned: set[str]) -> None:
    """Log a warning, unless a warning with the same first word has been logged for this file."""
    kind = what.split(maxsplit=1)[0]
    if kind not in warned:
        warned.add(kind)
        log.warning(f"{where}: {what}")


def _is_middle(center: tuple[float, float], size: tuple[int, int]) -> bool:
    sides = zip(center, size, strict=True)
    return all(abs(c - side / 2) < NEAR_CENTER * side for c, side in sides)
