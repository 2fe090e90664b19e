"""Reading of the common keys in Blender's and instant-ngp's JSON files: `frames`, placement, and
`up`.

Poses are camera-to-file matrices with OpenGL axes, as in nerfmac.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import Header
from nerfmac.app.scenes.masks import mask_of
from nerfmac.app.scenes.options import MAX_EXTENT
from nerfmac.app.scenes.placement import RIGID_WITHIN, UP, estimated_up, rigid, unit
from nerfmac.app.scenes.posed_image import PosedImage, headers_of
from nerfmac.app.scenes.readers.frame_lens import lens_of
from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.placement import Direction, Placement

Array = npt.NDArray[np.float64]

SPLITS = ("train", "val", "test")
POSE = "transform_matrix"
DEFAULT_SCALE, DEFAULT_OFFSET = 0.33, 0.5
"""Defaults of instant-ngp, chosen for the Blender scenes of 2020."""
_UNDISTORTED = "one of OpenCV's two camera models: undistort the images first"
_ALPHA = "images with an alpha channel, or masks"
NOT_READ = {
    **dict.fromkeys(("latlong", "equirectangular", "ftheta_p0"), _UNDISTORTED),
    "fisheye_crop_radius": _UNDISTORTED,
    **dict.fromkeys(("mask_color", "white_transparent", "black_transparent"), _ALPHA),
    "rolling_shutter": "a global shutter",
    "from_na": "poses with OpenGL axes",
}
"""Unsupported keys that change the meaning of an image, with the supported alternatives. They are
accepted if their value is null, false, or 0. Other unknown keys are ignored."""

log = logging.getLogger("nerfmac")


class Entry(NamedTuple):
    """Frame of a JSON file: its fields, the file with default values, its name, and its image."""

    fields: Fields
    file: Fields
    name: str
    image: Path


def entries_of(file: Fields, search: ImageSearch) -> list[Entry]:
    """Return the frames with a pose and an existing image. Log a warning about the other frames."""
    given = file.objects("frames")
    frames = [fields for fields in given if not _lacks_pose(fields)]
    if not frames:
        raise InputError(
            f"{file.where}: {POSE} is null in all {len(given)} frames; expected 4x4 numbers"
        )
    if len(frames) < len(given):
        log.warning(
            f"{len(given) - len(frames)} of {len(given)} frames of {file.where} have no pose; "
            f"using the other {len(frames)}"
        )
    names = [fields.text("file_path") for fields in frames]
    entries = []
    for index, image in search.existing(names, file.where):
        fields, name = frames[index], names[index]
        fields = replace(fields, where=f"{fields.where} ({name})")
        entries.append(Entry(fields, file, Path(name).as_posix(), image))
    return entries


def images_of(entries: Sequence[Entry], folder: Path) -> list[PosedImage]:
    """Return the images of frames with their masks and their cameras in file coordinates."""
    warned: set[str] = set()
    poses = _poses([entry.fields for entry in entries])
    headers = headers_of([entry.image for entry in entries])
    images = []
    for (fields, file, name, path), header, pose in zip(entries, headers, poses, strict=True):
        _refuse_what_is_not_read(fields)
        _refuse_what_is_not_read(file)
        lens, where = lens_of(fields, file, header, warned), fields.where
        image = PosedImage.of(path, header, lens=lens, pose=pose, where=where, name=name)
        images.append(image._replace(mask=mask_of(fields, folder)))
    return images


def cameras_of(
    file: Fields, photo: Header, names: Collection[str] | None = None
) -> list[tuple[Lens, Array]]:
    """Return the camera intrinsics and the camera-to-world pose (3, 4), in file coordinates with
    OpenGL axes, of the frames with a `file_path` in `names`, by default of all frames. The images
    need not exist. `photo` is the image size for files without one."""
    frames = [fields for fields in file.objects("frames") if not _lacks_pose(fields)]
    if names is not None:
        frames = [fields for fields in frames if fields.values.get("file_path") in names]
    if not frames:
        raise InputError(f"{file.where}: no frame has a {POSE}; expected 4x4 numbers")
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


def up_of(file: Fields, poses: Sequence[Array] = ()) -> Direction:
    """Return the up direction of a file, a unit vector in the coordinates of the file.

    This is the key `up` of instant-ngp if it exists. If the key `orientation_override` of
    nerfstudio is "none", the poses are upright, and the result is z. Otherwise, it is estimated
    from the camera-to-world `poses` (3, 4); without poses, it is z. nerfstudio's
    `applied_transform` has no effect, because it only documents how the poses were changed.
    """
    if "up" in file:
        up = file.numbers("up", 3)
        if not any(up):
            raise file.wrong("up", "three numbers that are not all zero")
        return unit(up)
    if not poses or file.values.get("orientation_override") == "none":
        return UP
    return estimated_up(np.stack(poses))


def _poses(frames: Sequence[Fields]) -> list[Array]:
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
        log.warning(
            f"the rotations of all {len(frames)} poses are scaled by {scale:.4g}, as in "
            f"{frames[0].where}; removing the scale"
        )
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


def _matrix_of(fields: Fields) -> Array:
    matrix = np.array(fields.table(POSE, rows=(3, 4), columns=4))
    if not np.allclose(matrix[3:], (0, 0, 0, 1), atol=1e-6):
        raise InputError(
            f"{fields.where}: the last row of {POSE} is {matrix[3].tolist()}; expected [0, 0, 0, 1]"
        )
    return matrix[:3]


def _refuse_what_is_not_read(fields: Fields) -> None:
    for key, expected in NOT_READ.items():
        value = fields.values.get(key)
        if any(value) if isinstance(value, list) else value:
            raise fields.wrong(key, expected)
