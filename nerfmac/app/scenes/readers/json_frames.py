"""Reading of the common keys in Blender's and instant-ngp's JSON files: `frames` with poses and
camera intrinsics, placement, and `up`.

Poses are camera-to-file matrices with OpenGL axes, as in nerfmac. Intrinsics have the keys of
instant-ngp and nerfstudio. Values of a frame take precedence over values of the file. If a value is
obviously wrong, as in some published files, the value is corrected and a warning is logged.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import pi, tan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.scenes.depth_images import DepthImage
from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import inspect_all
from nerfmac.app.scenes.parsed_scene import PosedImage
from nerfmac.app.scenes.placement import RIGID_WITHIN, UP, estimated_up, rigid, unit
from nerfmac.app.scenes.readers.camera_models import is_fisheye_model
from nerfmac.app.scenes.readers.json_keys import MATRICES, MISSPELLED, SPLITS as SPLITS, check_keys
from nerfmac.common import Fields, Float64Array, InputError, leads_out, log, prefix_errors, spelled
from nerfmac.config.scenes import MAX_EXTENT
from nerfmac.geometry import Direction, Lens, Placement, focal_length

NEAR_CENTER = 0.1
"""Maximum distance of a central principal point from the image center, relative to the image
size."""
RESIZED = (2, 4, 8, 3, 1 / 2, 1 / 4, 1 / 8, 1 / 3)
"""Possible ratios of the image size to the size that the intrinsics are for, in the order of the
trials."""
TINY = 8
"""In images with a larger shorter side, focal lengths up to 2 and principal points up to 1 are
rejected, because they look like fractions of the image size instead of pixels."""
STUDIO_UNIT = 1e-3
"""Default of `depth_unit_scale_factor` in nerfstudio, for depth images in millimeters."""
CONTRADICTION = 0.02
"""Maximum relative difference between the focal length and the one of the field of view."""


def lens_of(frame: Fields, file: Fields, photo: tuple[int, int], warned: set[str]) -> Lens:
    """Return the camera intrinsics of a frame, for the image size in the JSON file or else the
    size `photo`. `file` contains defaults for all frames. `warned` contains the kinds of warnings
    that have been logged for the file and is updated."""
    keys = _LensKeys(_normalized(frame, warned), _normalized(file, warned), photo, warned)
    is_fisheye = keys.is_fisheye()
    width, height = keys.size()
    fl_x, fl_y = keys.focal_lengths(width, height)
    defaults = {"cx": width / 2, "cy": height / 2}
    defaults |= dict.fromkeys(("k1", "k2", "k3", "k4", "p1", "p2"), 0.0)
    rest: dict[str, Any] = {key: keys.number(key, value) for key, value in defaults.items()}
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
        width, height = self.photo
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


POSE, FRAMES = "transform_matrix", "frames"
DEFAULT_SCALE, DEFAULT_OFFSET = 0.33, 0.5
"""Defaults of instant-ngp, chosen for the Blender scenes of 2020."""


class Entry(NamedTuple):
    """Frame of a JSON file: its fields, the file with default values, its name, and its image."""

    fields: Fields
    file: Fields
    name: str
    image: Path


def entries_of(file: Fields, search: ImageSearch, key: str = FRAMES) -> list[Entry]:
    """Return the frames in the list `key` with a pose and an existing image. Log a warning about
    the other frames."""
    given = file.objects(key)
    frames = [fields for fields in given if not _lacks_pose(fields)]
    if not frames:
        where = f"{file.where}: {POSE}"
        raise InputError(f"{where} is null in all {len(given)} {key}; expected 4x4 numbers")
    if len(frames) < len(given):
        count = f"{len(given) - len(frames)} of {len(given)} {key}"
        log.warning(f"{count} of {file.where} have no pose; using the other {len(frames)}")
    names = [fields.text("file_path") for fields in frames]
    entries = []
    for index, image in search.existing(names, file.where).items():
        fields, name = frames[index], names[index]
        fields = replace(fields, where=f"{fields.where} ({name})")
        entries.append(Entry(fields, file, Path(name).as_posix(), image))
    return entries


def without_bad(entries: Sequence[Entry]) -> list[Entry]:
    """Return the frames that are not marked as bad, for example because they are blurred, as in
    ScanNet++. Log a warning about the others."""
    bad = [entry for entry in entries if entry.fields.values.get("is_bad")]
    if bad and len(bad) < len(entries):
        count = f"{len(bad)} of {len(entries)} frames of {bad[0].file.where}"
        log.warning(f"{count} are marked as bad (is_bad) and are not used, such as {bad[0].name}")
        return [entry for entry in entries if entry not in bad]
    return list(entries)


def images_of(entries: Sequence[Entry], folder: Path) -> list[PosedImage]:
    """Return the image of each frame, with its mask and its camera in coordinates of the file."""
    warned: set[str] = set()
    check_keys([entry.file for entry in entries], [entry.fields for entry in entries])
    poses = _poses([entry.fields for entry in entries])
    photos = inspect_all({index: entry.image for index, entry in enumerate(entries)})
    images = []
    for index, (fields, file, name, _) in enumerate(entries):
        lens = lens_of(fields, file, photos[index].size, warned)
        depth = _depth_of(fields, file, folder, warned)
        mask, where = file_of(fields, "mask_path", folder), fields.where
        image = PosedImage.of(
            photos[index], where, lens, poses[index], name=name, depth=depth, mask=mask
        )
        images.append(image)
    return images


def file_of(frame: Fields, key: str, folder: Path) -> Path | None:
    """Return the file that a frame lists with `key`, or None. The file need not exist. `folder` is
    the folder of the JSON file."""
    if not frame.values.get(key):
        return None
    path = Path(os.path.normpath(folder / frame.text(key).replace("\\", "/")))
    if leads_out(path, folder):
        raise frame.wrong(key, f"a file in {folder}, or a symbolic link there to another folder")
    return spelled(path)


def _depth_of(frame: Fields, file: Fields, folder: Path, warned: set[str]) -> DepthImage | None:
    """Return the depth image that a frame lists, or None. `file` contains values for all frames.
    `warned` contains the kinds of warnings that have been logged for the file and is updated.

    nerfstudio lists `depth_file_path` for each frame, a PNG file with 16 bits or a .npy file. A
    stored value times `depth_unit_scale_factor` (by default 0.001, for millimeters) is the depth in
    units of the poses. instant-ngp and NeRFCapture list `depth_path`, a PNG file with 16 bits, and
    a stored value times `integer_depth_scale` is the depth in units of the poses. Without
    `integer_depth_scale`, or if `enable_depth_loading` is false, instant-ngp does not read depth
    images. NeRFCapture's offline mode writes the key `depth_integer_scale`. In all programs, depth
    is along the optical axis.
    """
    if frame.values.get("depth_file_path"):
        unit = _value("depth_unit_scale_factor", frame, file, STUDIO_UNIT)
        path = file_of(frame, "depth_file_path", folder)
    elif frame.values.get("depth_path"):
        unit = _value("depth_integer_scale", frame, file, 0.0)
        unit = _value("integer_depth_scale", frame, file, unit)
        path = file_of(frame, "depth_path", folder)
        if not file.flag("enable_depth_loading", default=True) or unit <= 0:
            why = "enable_depth_loading is false" if unit > 0 else "integer_depth_scale is missing"
            _warn(file.where, f"depth_path is ignored, because {why}", warned)
            path = None
    else:
        return None
    return None if path is None else DepthImage(path, unit)


def _value(key: str, frame: Fields, file: Fields, default: float) -> float:
    return (frame if key in frame else file).number(key, default)


def cameras_of(
    file: Fields, photo: tuple[int, int], names: Collection[str] | None = None
) -> list[tuple[Lens, Float64Array]]:
    """Return the camera intrinsics and the camera-to-world pose (3, 4), in file coordinates with
    OpenGL axes, of the frames with a `file_path` in `names`, by default of all frames. The images
    need not exist. `photo` is the image size for files without one."""
    frames = [fields for fields in file.objects("frames") if not _lacks_pose(fields)]
    if names is not None:
        frames = [fields for fields in frames if fields.values.get("file_path") in names]
    if not frames:
        raise InputError(f"{file.where}: no frame has a {POSE}; expected 4x4 numbers")
    check_keys([file], frames)
    warned: set[str] = set()
    lenses = [lens_of(fields, file, photo, warned) for fields in frames]
    return list(zip(lenses, _poses(frames), strict=True))


def _lacks_pose(fields: Fields) -> bool:
    return POSE in fields and fields.is_null(POSE)


def is_placed(file: Fields) -> bool:
    """Return whether the file contains instant-ngp's keys for its placement in scene space."""
    return any(key in file for key in ("aabb_scale", "scale", "offset"))


def placement_of(file: Fields) -> Placement:
    """Return the placement of a JSON file: the transform from file to scene coordinates. The
    placement is determined by the keys `scale`, `offset` (one or three numbers), and `aabb_scale`.
    Missing keys have the default values of instant-ngp."""
    extent = file.number("aabb_scale", 1.0, above=0)
    if extent > MAX_EXTENT:
        raise file.wrong("aabb_scale", f"a number above 0 and up to {MAX_EXTENT:g}")
    scale = file.number("scale", DEFAULT_SCALE, above=0)
    if isinstance(file.values.get("offset"), list):
        offset = np.array(file.numbers("offset", 3))
    else:
        offset = np.full(3, file.number("offset", DEFAULT_OFFSET))
    return Placement(scale, offset, extent)


def up_of(file: Fields, poses: Sequence[Float64Array] = ()) -> Direction:
    """Return the up direction of a file as a unit vector in the coordinates of the file.

    If instant-ngp's key `up` exists, the result is its value. If nerfstudio's key
    `orientation_override` is "none", the poses are upright, and the result is the z axis.
    Otherwise, the direction is estimated from the camera-to-world `poses` (3, 4). If there are no
    poses, the result is the z axis. nerfstudio's `applied_transform` has no effect, because it only
    documents how the poses were changed.
    """
    if "up" in file:
        up = file.numbers("up", 3)
        if not any(up):
            raise file.wrong("up", "three numbers that are not all zero")
        return unit(up)
    if not poses or file.values.get("orientation_override") == "none":
        return UP
    return estimated_up(np.stack(poses))


def _poses(frames: Sequence[Fields]) -> list[Float64Array]:
    """Return the camera-to-world poses (3, 4) of frames, with exactly orthonormal rotations.

    If a similarity transform of the scene has scaled all rotations by the same factor, the factor
    is removed. If all determinants are negative, the file has left-handed axes. In this case, the
    poses remain reflections, and `Placement.mirrored` corrects them later.
    """
    matrices = [_matrix_of(fields) for fields in frames]
    determinants = np.array([np.linalg.det(matrix[:, :3]) for matrix in matrices])
    scales, mirrored = np.cbrt(np.abs(determinants)), bool((determinants < 0).all())
    scale = float(np.median(scales))
    if scale > 0 and abs(scale - 1) > RIGID_WITHIN and np.ptp(scales) < RIGID_WITHIN * scale:
        scaled = f"the rotations of all {len(frames)} poses are scaled by {scale:.4g}"
        log.warning(f"{scaled}, as in {frames[0].where}; removing the scale")
        matrices = [np.c_[matrix[:, :3] / scale, matrix[:, 3:]] for matrix in matrices]
    poses = [
        rigid(matrix, f"{fields.where}: {POSE}", mirrored=mirrored)
        for matrix, fields in zip(matrices, frames, strict=True)
    ]
    if mirrored:
        log.warning(
            f"all {len(frames)} poses are reflections, as in {frames[0].where}; assuming "
            "left-handed axes in the file and mirroring x. If the cameras look away from the "
            "scene, one axis of each camera is wrong"
        )
    return poses


def _matrix_of(fields: Fields) -> Float64Array:
    matrix = np.array(fields.table(POSE, rows=(3, 4), columns=4))
    if not np.allclose(matrix[3:], (0, 0, 0, 1), atol=1e-6):
        where, row = f"{fields.where}: the last row of {POSE}", matrix[3].tolist()
        raise InputError(f"{where} is {row}; expected [0, 0, 0, 1]")
    return matrix[:3]
