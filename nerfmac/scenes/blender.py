"""Blender's format: transforms_train.json, and transforms_val.json, transforms_test.json beside it.

As written by the script of Mildenhall et al., 2020: `camera_angle_x` in radians for all frames, and
`file_path` without its ending. z is up, unless the training file has instant-ngp's `up`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.scenes.frames import Entry, entries_of, mirror_space, shots_of
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.placement import Placement, fit, is_placed, placement_of
from nerfmac.scenes.scene import Scene
from nerfmac.scenes.shots import are_cut_out, headers_of, scene_of
from nerfmac.scenes.splits import NAMES, hold_out
from nerfmac.scenes.upright import up_of

USUAL_DISTANCES = 0.7, 3.0
"""Scene units from the middle within which cameras see the unit cube well; usual are 1.3."""

log = logging.getLogger("nerfmac")


def file_name(split: str) -> str:
    """The name of a split's file."""
    return f"transforms_{split}.json"


def read_blender(folder: Path, options: SceneOptions) -> Scene:
    """The scene in `folder`, by the split and up of `options`; see `load_scene` for InputError."""
    files = {
        split: read_fields(folder / file_name(split))
        for split in NAMES
        if split == "train" or (folder / file_name(split)).exists()
    }
    entries: dict[str, list[Entry]] = {}
    # Splits have pictures of one name: the folder must be right too.
    search = PictureSearch(folder, tail=2)
    for split, file in files.items():
        try:
            entries[split], _ = entries_of(file, search)
        except InputError as error:
            if split == "train" or "frames" not in file:
                raise
            log.warning("%s; there is no %r split", error, split)  # pictures are often left out
    every = [entry for listed in entries.values() for entry in listed]
    headers = headers_of([entry.picture for entry in every])
    shots = shots_of(every, headers, folder)
    is_object = are_cut_out([shot.picture for shot in shots], headers)
    poses = [shot.pose for shot in shots]
    placement = _placement(files["train"], poses, is_object)
    if mirror_space(poses):
        placement = placement.mirrored()
    frames = iter([shot.placed(placement) for shot in shots])
    splits = {split: tuple(islice(frames, len(listed))) for split, listed in entries.items()}
    if options.split is not None:
        splits.pop("test", None)
        splits |= hold_out(splits["train"], options.split, str(folder))
    up = placement.turned_to_scene(options.up or up_of(files["train"]))
    return scene_of(folder, headers, placement, splits, up, options)


def _placement(
    file: Fields, poses: Sequence[npt.NDArray[np.float64]], is_object: bool
) -> Placement:
    """The file's placement, or the usual one; fitted to cameras that do not fit the usual one."""
    usual = placement_of(file)
    if is_placed(file):
        return usual
    eyes = np.stack([usual.apply(pose)[:, 3] for pose in poses])
    distance = float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
    if USUAL_DISTANCES[0] < distance < USUAL_DISTANCES[1]:
        return usual
    log.warning(
        "the cameras of %s are %.3g units from the origin, where 4 are usual; the scene is centred "
        "and scaled by its cameras",
        *(file.where, distance / usual.scale),
    )
    return fit(poses, is_object, file.where)
