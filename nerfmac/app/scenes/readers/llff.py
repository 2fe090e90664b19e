"""LLFF's format: `poses_bounds.npy` and images, sorted by name, in `images` or `images_N`.

The scripts of Mildenhall et al. 2019 (local light field fusion) write it. A row holds a image's
3x5 matrix [R | t | (height, width, focal length)], camera to world with axes that point down, right
and backwards, and the least and largest depth of what the image shows. The lens is for images
of that height and width and has no distortion.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.images import is_image
from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.posed_image import PosedImage, headers_of
from nerfmac.app.scenes.poses import rigid
from nerfmac.common.checks import LARGEST, InputError, prefix_errors
from nerfmac.geometry.lenses import Lens

FILE_NAME = "poses_bounds.npy"

Array = npt.NDArray[np.float64]


def read_llff(path: Path) -> ParsedScene:
    """Read the scene of the file `path`; see `load_scene` for InputError."""
    table = _table(path)
    files = _images(path.parent, len(table), path)
    images = []
    for index, (row, file, header) in enumerate(zip(table, files, headers_of(files), strict=True)):
        where = f"{path}, row {index}"
        down, right, backwards, position, (height, width, focal) = row[:15].reshape(3, 5).T
        pose = rigid(np.stack([right, -down, backwards, position], axis=1), where)
        lens = _lens(width, height, focal, where)
        images.append(PosedImage.of(file, header, lens=lens, pose=pose, where=where))
    points = _seen(np.stack([image.pose for image in images]), table[:, 15:])
    return ParsedScene(str(path.parent), path.parent, images, points=points)


def _table(path: Path) -> Array:
    try:
        # Mapped, a header that claims more than the file holds takes no memory.
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy's parser of headers lets through all that Python's raises
        raise InputError(
            f"{path} is no NumPy array: {error}; expected floats (images, 17)"
        ) from error
    if not isinstance(table, np.ndarray):
        raise InputError(f"{path} is an archive of arrays; expected one array, by numpy.save")
    if table.ndim != 2 or table.shape[1] != 17 or not len(table) or table.dtype.kind != "f":
        raise InputError(f"{path} holds {table.dtype} {table.shape}; expected floats (images, 17)")
    table = table.astype(np.float64)  # in half precision LARGEST is infinity, which LAPACK waits on
    if not (np.abs(table) <= LARGEST).all():
        raise InputError(f"{path} holds a number that is not finite; expected finite poses")
    return table


def _images(folder: Path, count: int, path: Path) -> list[Path]:
    """Images sorted by name, from the first of `images`, `images_2` ... that holds `count`.

    Raises InputError, which names the file `path`, if none does.
    """
    found = {}
    for place in [folder / "images", *sorted(folder.glob("images_*"), key=_factor)]:
        names = sorted(place.iterdir()) if place.is_dir() else []
        found[place.name] = [file for file in names if is_image(file.name)]
        if len(found[place.name]) == count:
            return found[place.name]
    numbers = ", ".join(f"{len(names)} in {name}" for name, names in found.items())
    raise InputError(
        f"{path} has {count} poses but there are {numbers or 'no images'}; expected as many, for "
        "they belong together in the order of their names"
    )


def _factor(place: Path) -> tuple[bool, int, str]:
    number = place.name.removeprefix("images_")
    return not number.isdigit(), int(number) if number.isdigit() else 0, number


def _lens(width: float, height: float, focal: float, where: str) -> Lens:
    if width != round(width) or height != round(height):
        raise InputError(f"{where}: images of {width:g}x{height:g} pixels; expected whole numbers")
    with prefix_errors(where):
        return Lens(round(width), round(height), focal, focal, width / 2, height / 2)


def _seen(poses: Array, depths: Array) -> Array:
    """Points (2 n, 3) on the images' optical axes, at the least and the largest depth."""
    eyes, axes = poses[:, None, :, 3], poses[:, None, :, 2]
    return np.asarray(eyes - depths[:, :, None] * axes).reshape(-1, 3)
