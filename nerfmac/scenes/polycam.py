"""Polycam's raw data: `keyframes/cameras`, a JSON file a picture, and `keyframes/images`.

With `corrected_cameras` and `corrected_images` these are taken: their poses agree better. A pose is
t_00 to t_23, the rows of a camera-to-world matrix with OpenGL's axes, as ARKit gives them.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.pictures import Header
from nerfmac.scenes.scene import Scene
from nerfmac.scenes.shots import Shot, headers_of, levelled, rigid

PAIRS = (("corrected_cameras", "corrected_images"), ("cameras", "images"))

log = logging.getLogger("nerfmac")


def keyframes_of(folder: Path) -> tuple[Path, Path] | None:
    """The folders of cameras and of pictures of the capture in `folder`; None if it is none."""
    for place in (folder / "keyframes", folder):
        for cameras, images in PAIRS:
            if (place / images).is_dir() and any((place / cameras).glob("*.json")):
                return place / cameras, place / images
    return None


def read_polycam(folder: Path, cameras: Path, images: Path, options: SceneOptions) -> Scene:
    """The scene in `folder`; see `load_scene` for InputError.

    Every 8th view is held out as "test", unless `options` say otherwise.
    """
    files = [read_fields(path) for path in sorted(cameras.glob("*.json"))]
    names = [Path(file.where).stem for file in files]
    found = PictureSearch(images).find_all(names, str(cameras))
    there = [(file, path) for file, path in zip(files, found, strict=True) if path]
    if not there:
        raise InputError(f"none of the {len(files)} pictures of {cameras} exist in {images}")
    if len(there) < len(files):
        log.warning(
            "%d of %d pictures of %s do not exist; the other %d are used",
            *(len(files) - len(there), len(files), cameras, len(there)),
        )
    headers, shots = headers_of([path for _, path in there]), []
    for (file, path), header in zip(there, headers, strict=True):
        rows = [[file.number(f"t_{i}{j}") for j in range(4)] for i in range(3)]
        pose = rigid(np.array(rows), f"{file.where}: t_00 to t_23")
        shots.append(Shot.of(path, header, _lens(file, header), pose, file.where))
    return levelled(folder, shots, headers=headers, points=None, options=options)


def _lens(file: Fields, picture: Header) -> Lens:
    width, height = file.count("width", picture.width), file.count("height", picture.height)
    fl_x, fl_y = file.number("fx", above=0), file.number("fy", above=0)
    return Lens(width, height, fl_x, fl_y, file.number("cx"), file.number("cy"))
