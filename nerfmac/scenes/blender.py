"""Blender's format: transforms_train.json, and transforms_val.json, transforms_test.json beside it.

As written by the script of Mildenhall et al., 2020: `camera_angle_x` in radians for all frames, and
`file_path` without its ending. z is up, unless the training file has instant-ngp's `up`.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from nerfmac.checks import InputError
from nerfmac.json_reader import read_fields
from nerfmac.scenes.frames import Entry, entries_of, shots_of
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.placement import placement_of
from nerfmac.scenes.scene import Scene
from nerfmac.scenes.shots import headers_of
from nerfmac.scenes.splits import NAMES, hold_out
from nerfmac.scenes.upright import up_of


def file_name(split: str) -> str:
    """The name of a split's file."""
    return f"transforms_{split}.json"


def read_blender(folder: Path, test_every: int | None = None) -> Scene:
    """The scene in `folder`; see `load_scene` for `test_every` and InputError."""
    files = {
        split: read_fields(folder / file_name(split))
        for split in NAMES
        if split == "train" or (folder / file_name(split)).exists()
    }
    entries: dict[str, list[Entry]] = {}
    # Splits have pictures of one name: the folder must be right too.
    search = PictureSearch(folder, tail=2)
    for split, file in files.items():
        entries[split], absent = entries_of(file, search)
        if absent:
            raise InputError(
                f"{absent[0].where}: the picture does not exist in {folder}, with or without .png"
            )
    every = [entry for listed in entries.values() for entry in listed]
    headers = headers_of([entry.picture for entry in every])
    has_alpha = any(header.has_alpha for header in headers)
    placement = placement_of(files["train"])
    frames = iter([shot.placed(placement) for shot in shots_of(every, headers)])
    splits = {split: tuple(islice(frames, len(listed))) for split, listed in entries.items()}
    if test_every is not None:
        splits.pop("test", None)
        splits |= hold_out(splits["train"], test_every, str(folder))
    name, up = folder.resolve().name, up_of(files["train"])
    return Scene(name, placement.extent, splits, up, has_alpha=has_alpha)
