"""Masks: pictures that are black where a photograph is ignored.

A mask is the file that a frame names (nerfstudio's `mask_path`). Otherwise it is a file in a folder
`masks`, next to the pictures or to their folder, with the picture's name: `a.png`, or
`a.jpg.png` as in COLMAP.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nerfmac.common.checks import InputError
from nerfmac.common.files import leads_out
from nerfmac.common.json_reader import Fields
from nerfmac.scenes.pictures import TRIED
from nerfmac.scenes.scene import Frame

FOLDER, KEY = "masks", "mask_path"

log = logging.getLogger("nerfmac")


def mask_of(frame: Fields, folder: Path) -> Path | None:
    """Return the path of the mask that a JSON file's frame names; None if it names none.

    `masked` checks that it exists. Raises InputError if it lies outside `folder`.
    """
    if not frame.values.get(KEY):
        return None
    path = Path(os.path.normpath(folder / frame.text(KEY).replace("\\", "/")))
    if leads_out(path, folder):
        raise frame.wrong(KEY, f"a file in {folder}")
    return path


def masked(splits: Mapping[str, tuple[Frame, ...]]) -> dict[str, tuple[Frame, ...]]:
    """Return the frames of all splits with the paths of their masks, named or found.

    Raises InputError if a named mask does not exist.
    """
    found = {name: tuple(map(_masked, frames)) for name, frames in splits.items()}
    frames = [frame for part in found.values() for frame in part]
    masks = [frame.mask for frame in frames if frame.mask]
    if masks:
        log.info(
            f"{len(masks)} of {len(frames)} pictures have a mask, such as {masks[0]}: what is "
            "black in it is left out"
        )
    return found


def _masked(frame: Frame) -> Frame:
    if frame.mask and not os.path.isfile(frame.mask):
        raise InputError(
            f"the mask {frame.mask} of {frame.name} does not exist; put it there, or use "
            "--no-masks to train on whole pictures"
        )
    if frame.mask or not isinstance(frame.picture, Path):
        return frame
    path = frame.picture
    names = [f"{path.name}.png", path.name, *(f"{path.stem}{ending}" for ending in TRIED)]
    for folder in (path.parent / FOLDER, path.parent.parent / FOLDER):
        if folder.is_dir():
            for name in names:
                if (folder / name).is_file():
                    return replace(frame, mask=folder / name)
    return frame
