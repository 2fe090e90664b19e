"""Blender format of the NeRF authors (Mildenhall et al. 2020): `transforms_train.json`, optional
`_val` and `_test`, `camera_angle_x` in radians, and `file_path` without a file extension. The up
direction is z, unless the training file contains instant-ngp's `up`."""

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
"""Plausible median distances from the cube center to the cameras, in scene units, with the default
placement of instant-ngp (typically 1.3). For other distances, a placement is fitted."""

log = logging.getLogger("nerfmac")


def file_name(split: str) -> str:
    """Return the name of the camera file of a split, such as `transforms_train.json`."""
    return f"transforms_{split}.json"


def read_blender(folder: Path) -> ParsedScene:
    """Read the scene in a folder with Blender files."""
    files = {
        split: read_fields(folder / file_name(split))
        for split in SPLITS
        if split == "train" or (folder / file_name(split)).exists()
    }
    entries: list[Entry] = []
    splits = {}
    # Images of different splits have the same file names, so the name of the parent folder must
    # match too.
    search = ImageSearch(folder, tail=2)
    for split, file in files.items():
        try:
            found = entries_of(file, search)
        except InputError as error:
            if split == "train" or "frames" not in file:
                raise
            # Datasets often omit images, and `render --path` requires only the cameras.
            log.warning(f"{error}; without these images, there are no {split!r} views to evaluate")
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
    """Return the placement of the file. If the file specifies none, return the default placement of
    instant-ngp, or None if this placement does not fit the cameras."""
    usual = placement_of(file)
    if is_placed(file):
        return usual
    eyes = np.stack([usual.apply(image.pose)[:, 3] for image in images])
    distance = float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
    if USUAL_DISTANCES[0] < distance < USUAL_DISTANCES[1]:
        return usual
    log.warning(
        f"the cameras of {file.where} are {distance / usual.scale:.3g} units from the origin "
        "instead of about 4; using the cameras to center and scale the scene"
    )
    return None
