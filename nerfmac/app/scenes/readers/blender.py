"""Blender's format: transforms_train.json, and next to it transforms_val.json and _test.json.

The format is that of the NeRF authors' Blender scenes (Mildenhall et al. 2020): `camera_angle_x` in
radians for all frames, and `file_path` without its ending. z is up, unless the training file has
instant-ngp's `up`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.posed_image import PosedImage
from nerfmac.app.scenes.readers.json_frames import (
    SPLITS,
    Entry,
    entries_of,
    images_of,
    is_placed,
    placement_of,
    up_of,
)
from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.geometry.placement import Placement

USUAL_DISTANCES = 0.7, 3.0
"""Smallest and largest median distance of the cameras from the cube's center, in scene units, for
which instant-ngp's default placement is used; 1.3 is usual. Otherwise a placement is fitted."""

log = logging.getLogger("nerfmac")


def file_name(split: str) -> str:
    """Return the name of a split's file."""
    return f"transforms_{split}.json"


def read_blender(folder: Path) -> ParsedScene:
    """Read the scene in `folder`. Raises InputError as `load_scene` does."""
    files = {
        split: read_fields(folder / file_name(split))
        for split in SPLITS
        if split == "train" or (folder / file_name(split)).exists()
    }
    entries: list[Entry] = []
    splits = {}
    # Splits have images of the same names, so a image's folder has to match too.
    search = ImageSearch(folder, tail=2)
    for split, file in files.items():
        try:
            found = entries_of(file, search)
        except InputError as error:
            if split == "train" or "frames" not in file:
                raise
            # Images are often left out; `render --path` needs the cameras alone.
            log.warning(f"{error}; without them, there are no {split!r} views to evaluate")
        else:
            splits[split] = range(len(entries), len(entries) + len(found))
            entries += found
    train, images = files["train"], images_of(entries, folder)
    return ParsedScene(
        source=train.where,
        folder=folder,
        images=images,
        up=up_of(train),
        placement=_placement(train, images),
        splits=splits,
    )


def _placement(file: Fields, images: list[PosedImage]) -> Placement | None:
    """The file's placement, else instant-ngp's default; None if the cameras are too near or far."""
    usual = placement_of(file)
    if is_placed(file):
        return usual
    eyes = np.stack([usual.apply(image.pose)[:, 3] for image in images])
    distance = float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
    if USUAL_DISTANCES[0] < distance < USUAL_DISTANCES[1]:
        return usual
    log.warning(
        f"the cameras of {file.where} are {distance / usual.scale:.3g} units from the origin, "
        "where 4 are usual; the scene is centered and scaled by its cameras"
    )
    return None
