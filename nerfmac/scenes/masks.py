"""Masks: pictures that are black where a photograph is not to be looked at.

They are those that a file names (nerfstudio's `mask_path`), or those in a folder `masks` beside the
pictures or beside their folder, under the picture's name: `a.png`, or `a.jpg.png` as COLMAP has it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.scenes.pictures import TRIED
from nerfmac.scenes.scene import Frame

FOLDER, KEY = "masks", "mask_path"

log = logging.getLogger("nerfmac")


def mask_of(frame: Fields, folder: Path) -> Path | None:
    """The mask that a frame of a JSON file names, which must lie in `folder`; None without.

    Whether it exists is found out by `masked`. Raises InputError if it lies elsewhere.
    """
    if not frame.values.get(KEY):
        return None
    path = Path(os.path.normpath(folder / frame.text(KEY).replace("\\", "/")))
    if not path.is_relative_to(os.path.normpath(folder)):
        raise frame.wrong(KEY, f"a file in {folder}")
    return path


def masked(splits: Mapping[str, tuple[Frame, ...]]) -> dict[str, tuple[Frame, ...]]:
    """The frames, each with its mask; says in one line how many have one.

    Raises InputError if one that a file names does not exist.
    """
    found = {name: tuple(map(_masked, frames)) for name, frames in splits.items()}
    frames = [frame for some in found.values() for frame in some]
    masks = [frame.mask for frame in frames if frame.mask]
    if masks:
        log.info(
            "%d of %d pictures have a mask, such as %s: what is black in it is left out",
            *(len(masks), len(frames), masks[0]),
        )
    return found


def _masked(frame: Frame) -> Frame:
    if frame.mask and not frame.mask.is_file():
        raise InputError(
            f"the mask {frame.mask} of {frame.name} does not exist; without masks (--no-masks) all "
            "of the pictures is looked at"
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
