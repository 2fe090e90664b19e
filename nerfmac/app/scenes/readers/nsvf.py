"""NSVF format (Liu et al. 2020): images in `rgb`, a camera-to-world matrix with OpenCV axes for
each image in `pose`, and `intrinsics.txt`, which contains a 3x3 or 4x4 matrix, or a focal length
and the principal point. File names begin with 0 for training, 1 for validation, and 2 for test
views; without 2, 1 denotes test views. `bbox.txt` contains the corners of a box around the object.
"""

from pathlib import Path

import numpy as np

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import inspect_all
from nerfmac.app.scenes.parsed_scene import OPENCV, ParsedScene, PosedImage, read_numbers, rigid
from nerfmac.app.scenes.placement import estimated_up
from nerfmac.common import InputError, prefix_errors
from nerfmac.geometry import Lens, Placement

INTRINSICS, POSES, IMAGES, BOX = "intrinsics.txt", "pose", "rgb", "bbox.txt"


def read_nsvf(folder: Path) -> ParsedScene:
    """Read the NSVF scene in `folder`."""
    files = sorted((folder / POSES).glob("*.txt"))
    if not files:
        raise InputError(f"{folder / POSES} contains no .txt files; expected one per image")
    found = ImageSearch(folder / IMAGES).existing([path.stem for path in files], str(folder))
    intrinsics, images = _intrinsics(folder / INTRINSICS), []
    for index, photo in inspect_all(found).items():
        where, matrix = str(files[index]), read_numbers(files[index])
        if matrix.size not in (12, 16):
            raise InputError(f"{where} contains {matrix.size} numbers; expected a 4x4 matrix")
        with prefix_errors(str(folder / INTRINSICS)):
            lens = Lens(*photo.size, *intrinsics)
        pose = rigid(matrix.reshape(-1, 4)[:3] * OPENCV, where)
        images.append(PosedImage.of(photo, where, lens, pose))
    return ParsedScene(
        source=str(folder),
        folder=folder,
        images=images,
        up=estimated_up(np.stack([image.pose for image in images])),
        placement=_placement(folder / BOX),
        splits=_splits([image.name for image in images]),
    )


def _splits(names: list[str]) -> dict[str, list[int]] | None:
    """Return the splits by the first characters of file names, or None without training views."""
    has_test = any(name.startswith("2_") for name in names)
    prefixes = {"train": "0_", "val": "1_" if has_test else "", "test": "2_" if has_test else "1_"}
    splits = {
        split: [index for index, name in enumerate(names) if prefix and name.startswith(prefix)]
        for split, prefix in prefixes.items()
    }
    return {split: part for split, part in splits.items() if part} if splits["train"] else None


def _intrinsics(path: Path) -> tuple[float, float, float, float]:
    """Return fl_x, fl_y, cx, and cy."""
    values = read_numbers(path)
    if values.size in (9, 16):
        k = values.reshape(3, 3) if values.size == 9 else values.reshape(4, 4)
        return k[0, 0], k[1, 1], k[0, 2], k[1, 2]
    if values.size < 3:
        raise InputError(f"{path} contains {values.size} numbers; expected f cx cy, or a matrix")
    return values[0], values[0], values[1], values[2]


def _placement(path: Path) -> Placement | None:
    """Return the placement with the box of the object in the unit cube, or None without a box."""
    if not path.is_file():
        return None
    values = read_numbers(path)
    low, high = values[:3], values[3:6]
    if values.size < 6 or not (high > low).all():
        raise InputError(f"{path}: expected the lower and the upper corner of a box, 6 numbers")
    scale = 1.0 / float((high - low).max())
    return Placement(scale, 0.5 - scale * (low + high) / 2, 1.0)
