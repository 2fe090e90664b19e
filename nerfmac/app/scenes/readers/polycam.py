"""Captures by the phone app Polycam (raw data). Poses map camera to world coordinates with OpenGL
axes.

There is a JSON file per image in `keyframes/cameras`, and the images are in `keyframes/images`. The
keys t_00 to t_23 contain the pose matrix, row by row. The folders `corrected_cameras` and
`corrected_images` are preferred if they are complete, because their poses are more consistent.

`keyframes/depth` contains a PNG file with 16 bits per image: the depth along the optical axis in
millimeters. `keyframes/confidence` contains the confidence of each depth from 0 to 255.
"""

from pathlib import Path

import numpy as np

from nerfmac.app.scenes.depth_images import phone_depth
from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import inspect_all
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage, rigid
from nerfmac.common import read_fields
from nerfmac.geometry import Lens

KEYFRAME_FOLDERS = (("corrected_cameras", "corrected_images"), ("cameras", "images"))
"""Folders of cameras and images, in order of preference."""


def keyframes_of(folder: Path) -> tuple[Path, Path, Path] | None:
    """Return `folder`, the camera folder, and the image folder of a Polycam capture in `folder`, or
    None."""
    for parent in (folder / "keyframes", folder):
        found = [(parent / cameras, parent / images) for cameras, images in KEYFRAME_FOLDERS]
        best = max(found, key=lambda pair: _count_pairs(*pair))  # The first of equal ones.
        if _count_pairs(*best):
            return folder, *best
    return None


def _count_pairs(cameras: Path, images: Path) -> int:
    """Return the number of cameras with an image. Some captures contain only some of the corrected
    images."""
    names = {path.stem for path in images.iterdir()} if images.is_dir() else set()
    return sum(path.stem in names for path in cameras.glob("*.json"))


def read_polycam(folder: Path, cameras: Path, image_folder: Path) -> ParsedScene:
    """Read a Polycam scene, in the coordinates of Polycam, with the folders from `keyframes_of`."""
    files = [read_fields(path) for path in sorted(cameras.glob("*.json"))]
    names = [Path(file.where).stem for file in files]
    found, images = ImageSearch(image_folder).existing(names, str(cameras)), []
    for index, photo in inspect_all(found).items():
        file = files[index]
        rows = [[file.number(f"t_{i}{j}") for j in range(4)] for i in range(3)]
        pose = rigid(np.array(rows), f"{file.where}: t_00 to t_23")
        depth = phone_depth(cameras.parent, names[index], sure=255)
        width, height = file.count("width", photo.width), file.count("height", photo.height)
        fl_x, fl_y = file.number("fx", above=0), file.number("fy", above=0)
        lens = Lens(width, height, fl_x, fl_y, file.number("cx"), file.number("cy"))
        images.append(PosedImage.of(photo, file.where, lens, pose)._replace(depth=depth))
    return ParsedScene(str(folder), folder, images)
