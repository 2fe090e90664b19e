"""Polycam raw data: a JSON file per image in `keyframes/cameras`, and `keyframes/images`. The keys
t_00 to t_23 contain a camera-to-world matrix, row by row, with OpenGL axes. The folders
`corrected_cameras` and `corrected_images` are preferred, because their poses are more
consistent."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import Header
from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.posed_image import PosedImage, headers_of
from nerfmac.app.scenes.poses import rigid
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.geometry.lenses import Lens

FOLDERS = (("corrected_cameras", "corrected_images"), ("cameras", "images"))
"""Folders of cameras and images, in order of preference."""


def keyframes_of(folder: Path) -> tuple[Path, Path] | None:
    """Return the folder with camera files and the folder with images in a Polycam capture, or None
    if `folder` contains no capture."""
    for parent in (folder / "keyframes", folder):
        for cameras, images in FOLDERS:
            if (parent / images).is_dir() and any((parent / cameras).glob("*.json")):
                return parent / cameras, parent / images
    return None


def read_polycam(folder: Path, cameras: Path, image_folder: Path) -> ParsedScene:
    """Read a Polycam scene, in the world coordinates of Polycam, with the folders from
    `keyframes_of`."""
    files = [read_fields(path) for path in sorted(cameras.glob("*.json"))]
    names = [Path(file.where).stem for file in files]
    found = ImageSearch(image_folder).existing(names, str(cameras))
    headers, images = headers_of([path for _, path in found]), []
    for (index, path), header in zip(found, headers, strict=True):
        file = files[index]
        rows = [[file.number(f"t_{i}{j}") for j in range(4)] for i in range(3)]
        pose, lens = rigid(np.array(rows), f"{file.where}: t_00 to t_23"), _lens(file, header)
        images.append(PosedImage.of(path, header, lens=lens, pose=pose, where=file.where))
    return ParsedScene(str(folder), folder, images)


def _lens(file: Fields, image: Header) -> Lens:
    width, height = file.count("width", image.width), file.count("height", image.height)
    fl_x, fl_y = file.number("fx", above=0), file.number("fy", above=0)
    return Lens(width, height, fl_x, fl_y, file.number("cx"), file.number("cy"))
