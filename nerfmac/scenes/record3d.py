"""Record3D's export: `metadata` (JSON, with or without that ending) beside a folder of pictures.

A pose is a quaternion (x, y, z, w) and a position, camera to world with OpenGL's axes, as ARKit
gives them. `K` lists the matrix of intrinsics column after column, for pictures of `w` x `h`. The
picture of a pose is called by its number; a pose without a picture is left out, as phones write
more poses than pictures. Depth is not used.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.pictures import Header, is_picture
from nerfmac.scenes.scene import Scene
from nerfmac.scenes.shots import Shot, headers_of, levelled, rotation_of

FOLDERS = ("rgbd", "rgb", "images", "color")
OF_A_FRAME = "perFrameIntrinsicCoeffs"
"""Newer versions list [fl_x, fl_y, cx, cy] for each pose."""


def metadata_of(folder: Path) -> Path | None:
    """The file of the capture in `folder`; None if there is none."""
    for name in ("metadata", "metadata.json"):
        path = folder / name
        if path.is_file() and b'"poses"' in path.read_bytes():
            return path
    return None


def read_record3d(path: Path, options: SceneOptions) -> Scene:
    """The scene of the file `path`; see `load_scene` for InputError.

    Every 8th view is held out as "test", unless `options` say otherwise.
    """
    file = read_fields(path)
    poses = file.rows("poses", 7)
    pictures = _pictures(path.parent)
    numbers = [number for number in sorted(pictures) if number < len(poses)]
    if not numbers:
        raise InputError(
            f"{path} has {len(poses)} poses but no picture is called by a number below that; "
            f"looked in {', '.join(FOLDERS)} of {path.parent}"
        )
    there = [pictures[number] for number in numbers]
    headers, shots = headers_of(there), []
    for number, picture, header in zip(numbers, there, headers, strict=True):
        where = f"{path}, pose {number}"
        lens = _lens(file, number, header, where)
        shot = Shot.of(picture, header, lens, _pose(poses[number], where), where)
        # So that they are in order by name.
        shots.append(shot._replace(name=f"{number:06d}{picture.suffix}"))
    return levelled(path.parent, shots, headers=headers, points=None, options=options)


def _pictures(folder: Path) -> dict[int, Path]:
    for name in FOLDERS:
        place = folder / name
        files = sorted(place.iterdir()) if place.is_dir() else []
        found = {
            int(path.stem): path
            for path in files
            if is_picture(path.name) and path.stem.isdecimal()
        }
        if found:
            return found
    return {}


def _pose(row: tuple[float, ...], where: str) -> npt.NDArray[np.float64]:
    x, y, z, w = row[:4]
    return np.column_stack([rotation_of((w, x, y, z), where), row[4:]])


def _lens(file: Fields, number: int, picture: Header, where: str) -> Lens:
    if OF_A_FRAME in file:
        lengths = file.rows(OF_A_FRAME, 4)
        if number >= len(lengths):
            raise InputError(f"{where}: {OF_A_FRAME} has {len(lengths)} rows; expected one a pose")
        fl_x, fl_y, cx, cy = lengths[number]
    else:
        fl_x, _, _, _, fl_y, _, cx, cy, _ = file.numbers("K", 9)
    width, height = file.count("w", picture.width), file.count("h", picture.height)
    try:
        return Lens(width, height, fl_x, fl_y, cx, cy)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
