"""What both JSON formats have in common: the entries of `frames`, their lenses and their poses.

Both give camera-to-world matrices with OpenGL's axes, as this package does, so axes stay as they
are. A `Placement` moves the positions into scene space.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.scenes.frame_lens import lens_of
from nerfmac.scenes.masks import mask_of
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.pictures import Header
from nerfmac.scenes.shots import RIGID_WITHIN, Shot, rigid, say_what_is_turned

POSE = "transform_matrix"
_UNDISTORTED = "a lens of one of OpenCV's two models: undistort the pictures first"
_ALPHA = "pictures that carry what is to be left out as alpha, or masks"
NOT_READ = {
    **dict.fromkeys(("latlong", "equirectangular", "ftheta_p0"), _UNDISTORTED),
    "fisheye_crop_radius": _UNDISTORTED,
    "mask_color": _ALPHA,
    **dict.fromkeys(("white_transparent", "black_transparent"), _ALPHA),
    "rolling_shutter": "a shutter that opens for all rows at once",
    "from_na": "poses with OpenGL's axes",
}
"""Keys that change the meaning of a picture, and what is supported instead of them.

With the value false or 0 they are allowed. Other unknown keys, such as depth_file_path, only add
what this program does not use; they are ignored.
"""

log = logging.getLogger("nerfmac")


class Entry(NamedTuple):
    """One element of `frames` whose picture exists, and the file, which has its defaults."""

    fields: Fields
    file: Fields
    name: str
    picture: Path


def entries_of(file: Fields, search: PictureSearch) -> tuple[list[Entry], list[Fields]]:
    """A file's frames in its order: those whose picture exists, and those without a picture.

    Those whose pose is null are neither. Says in one line how many have none, and in one how many
    have no pose. Raises InputError if that is all of them.
    """
    entries, absent = [], []
    given = file.objects("frames")
    frames = [fields for fields in given if POSE not in fields or not fields.is_null(POSE)]
    if not frames:
        raise InputError(f"{file.where}: {POSE} is null in each of the {len(given)} frames")
    if len(frames) < len(given):
        log.warning(
            "%d of %d frames of %s have no pose; the other %d are used",
            *(len(given) - len(frames), len(given), file.where, len(frames)),
        )
    names = [fields.text("file_path") for fields in frames]
    pictures = search.find_all(names, file.where)
    for fields, name, picture in zip(frames, names, pictures, strict=True):
        fields = replace(fields, where=f"{fields.where} ({name})")
        if picture is None:
            absent.append(fields)
        else:
            entries.append(Entry(fields, file, Path(name).as_posix(), picture))
    if not entries:
        raise InputError(
            f"none of the {len(absent)} pictures named in {file.where} exist; the first is "
            f"{names[0]!r}, looked for in {search.folder}"
        )
    if absent:
        log.warning(
            "%d of %d pictures named in %s do not exist; the other %d are used",
            *(len(absent), len(frames), file.where, len(entries)),
        )
    return entries, absent


def shots_of(entries: Sequence[Entry], headers: Sequence[Header], folder: Path) -> list[Shot]:
    """The frames' pictures with their cameras, and the masks that they name, inside `folder`.

    Raises InputError for a key that means what is not read; see `lens_of` and `poses_of` too.
    """
    said: set[str] = set()
    poses = poses_of([entry.fields for entry in entries])
    shots = []
    for entry, header, pose in zip(entries, headers, poses, strict=True):
        for fields in (entry.fields, entry.file):
            _refuse_what_is_not_read(fields)
        lens = lens_of(entry.fields, entry.file, header, said)
        shot = Shot.of(entry.picture, header, lens, pose, entry.fields.where)
        shots.append(shot._replace(name=entry.name, mask=mask_of(entry.fields, folder)))
    say_what_is_turned(shots, entries[0].file.where)
    return shots


def poses_of(frames: Sequence[Fields]) -> list[npt.NDArray[np.float64]]:
    """Each frame's `transform_matrix` as (3, 4), with its rotation made exactly orthonormal.

    One scale that all rotations have in common is taken out: it is that of a similarity of the
    world, in which the positions are given. If all have the determinant -1 they are left so: the
    file's world is mirrored, which `Placement.mirrored` undoes. Raises InputError unless a matrix
    is 4x4 or 3x4, finite, and else rigid: a rotation and a position.
    """
    matrices = [_matrix_of(fields) for fields in frames]
    determinants = np.array([np.linalg.det(matrix[:, :3]) for matrix in matrices])
    scales, mirrored = np.cbrt(np.abs(determinants)), bool((determinants < 0).all())
    scale = float(np.median(scales))
    if scale > 0 and abs(scale - 1) > RIGID_WITHIN and np.ptp(scales) < RIGID_WITHIN * scale:
        log.warning(
            "the rotations of all %d poses are scaled by %.4g, as in %s; the scale is taken out",
            *(len(frames), scale, frames[0].where),
        )
        matrices = [np.c_[matrix[:, :3] / scale, matrix[:, 3:]] for matrix in matrices]
    where = [f"{fields.where}: {POSE}" for fields in frames]
    poses = [
        rigid(matrix, place, mirrored=mirrored)
        for matrix, place in zip(matrices, where, strict=True)
    ]
    if mirrored:
        log.warning(
            "all %d poses mirror space, as in %s: the file's axes are taken for left-handed, and x "
            "is mirrored; if nothing is found where cameras look, an axis of each camera is wrong",
            *(len(frames), frames[0].where),
        )
    return poses


def mirror_space(poses: Sequence[npt.NDArray[np.float64]]) -> bool:
    """Whether the `poses` (3, 4), of one file, are those of a mirrored world."""
    return bool(np.linalg.det(poses[0][:, :3]) < 0)


def _matrix_of(fields: Fields) -> npt.NDArray[np.float64]:
    matrix = np.array(fields.table(POSE, rows=(3, 4), columns=4))
    if not np.allclose(matrix[3:], (0, 0, 0, 1), atol=1e-6):
        raise InputError(
            f"{fields.where}: {POSE} ends in {matrix[3].tolist()}; expected [0, 0, 0, 1]"
        )
    return matrix[:3]


def _refuse_what_is_not_read(fields: Fields) -> None:
    for key, expected in NOT_READ.items():
        value = fields.values.get(key)
        if any(value) if isinstance(value, list) else value:
            raise fields.wrong(key, expected)
