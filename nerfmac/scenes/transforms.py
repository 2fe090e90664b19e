"""The `transforms.json` of instant-ngp and of nerfstudio: one file for all frames of a capture.

The lens is in pixels of a `w` x `h` picture, and each frame may override any of its values. Frames
whose picture is absent are left out, because published captures, such as instant-ngp's fox, name
pictures that they do not contain.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.scenes.frames import entries_of, mirror_space, shots_of
from nerfmac.scenes.options import SceneOptions, Split
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.placement import fit, is_placed, placement_of
from nerfmac.scenes.ply_points import read_ply_points
from nerfmac.scenes.scene import Frame, Scene
from nerfmac.scenes.shots import are_cut_out, headers_of, scene_of
from nerfmac.scenes.splits import Splits, hold_out, listed, lists_splits, usual_split
from nerfmac.scenes.upright import up_of

FILE_NAME = "transforms.json"

log = logging.getLogger("nerfmac")


def read_transforms(path: Path, options: SceneOptions) -> Scene:
    """The scene in the file `path`, its frames sorted by name; see `load_scene` for InputError.

    Of `options` its split and up count. By default the splits are the file's lists. Without lists
    every 8th view is held out as "test", or none if there is only one view.
    """
    file = read_fields(path)
    entries, absent = entries_of(file, PictureSearch(path.parent))
    entries.sort(key=lambda entry: entry.name)
    headers = headers_of([entry.picture for entry in entries])
    shots = shots_of(entries, headers, path.parent)
    poses = [shot.pose for shot in shots]
    points = _points_of(file, path.parent)
    if is_placed(file):
        placement = placement_of(file)
    else:
        is_object = are_cut_out([shot.picture for shot in shots], headers)
        tangents = [shot.lens.tangents for shot in shots]
        placement = fit(poses, is_object, str(path), points=points, tangents=tangents)
    if mirror_space(poses):
        placement = placement.mirrored()
    frames = tuple(shot.placed(placement) for shot in shots)
    if options.split is None and not lists_splits(file):
        options = replace(options, split=usual_split(frames))
    splits = _splits_of(file, frames, absent, options.split)
    up = placement.turned_to_scene(options.up or up_of(file, poses))
    return scene_of(path.resolve().parent, headers, placement, splits, up, options, points)


def _points_of(file: Fields, folder: Path) -> npt.NDArray[np.float64] | None:
    """nerfstudio's sparse points (n, 3), which are in the coordinates of its poses."""
    if not file.values.get("ply_file_path"):
        return None
    name = file.text("ply_file_path")
    path = Path(os.path.normpath(folder / name.replace("\\", "/")))
    if not path.is_relative_to(os.path.normpath(folder)) or not path.is_file():
        log.warning("%s: ply_file_path %s does not exist", file.where, name)
        return None
    try:
        return read_ply_points(path)
    except InputError as error:
        log.warning("%s; how large the scene is follows from its cameras", error)
        return None


def _splits_of(
    file: Fields, frames: tuple[Frame, ...], absent: list[Fields], split: Split | None
) -> Splits:
    if split is not None and not lists_splits(file):
        return hold_out(frames, split, file.where)
    names = [Path(fields.text("file_path")).as_posix() for fields in absent]
    splits = listed(file, frames, names)
    if split is not None:
        splits.pop("test", None)
        splits |= hold_out(splits["train"], split, file.where)
    return splits
