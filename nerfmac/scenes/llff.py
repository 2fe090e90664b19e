"""LLFF's format: `poses_bounds.npy` beside the pictures, sorted by name, in `images` or `images_N`.

As written by the scripts of Mildenhall et al., 2019 (local light field fusion): a row a picture, of
a 3x5 matrix [R | t | (height, width, focal length)] from camera to world, whose axes point down,
right and backwards, and the depths within which the picture's points lie. The lens is for pictures
of that height and width and has no distortion.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.pictures import is_picture
from nerfmac.scenes.scene import Scene
from nerfmac.scenes.shots import Shot, headers_of, levelled, rigid

FILE_NAME = "poses_bounds.npy"


def read_llff(path: Path, options: SceneOptions) -> Scene:
    """The scene of the file `path`; see `load_scene` for InputError.

    Every 8th view by name is held out as "test", unless `options` say otherwise.
    """
    table = _table(path)
    pictures = _pictures(path.parent, len(table), path)
    headers = headers_of(pictures)
    shots = []
    for index, (row, picture, header) in enumerate(zip(table, pictures, headers, strict=True)):
        where = f"{path}, row {index}"
        matrix = row[:15].reshape(3, 5)
        down, right, backwards, position, (height, width, focal) = matrix.T
        pose = np.stack([right, -down, backwards, position], axis=1)
        lens = _lens(width, height, focal, where)
        shots.append(Shot.of(picture, header, lens, rigid(pose, where), where))
    points = _seen(np.stack([shot.pose for shot in shots]), table[:, 15:])
    return levelled(path.parent, shots, headers=headers, points=points, options=options)


def _table(path: Path) -> npt.NDArray[np.float64]:
    try:
        # Mapped, a header that claims more than the file holds takes no memory.
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise InputError(f"{path} is no NumPy array: {error}") from error
    if not isinstance(table, np.ndarray):
        raise InputError(f"{path} is an archive of arrays; expected one array, by numpy.save")
    if table.ndim != 2 or table.shape[1] != 17 or not len(table) or table.dtype.kind != "f":
        raise InputError(
            f"{path} holds {table.dtype} {table.shape}; expected floats (pictures, 17)"
        )
    if not (np.abs(table) <= LARGEST).all():
        raise InputError(f"{path} holds a number that is not finite")
    return table.astype(np.float64)


def _pictures(folder: Path, count: int, path: Path) -> list[Path]:
    """The pictures, sorted by name: of the folders that have `count`, the largest pictures."""
    places = [folder / "images", *sorted(folder.glob("images_*"), key=_factor)]
    found = {}
    for place in places:
        names = sorted(place.iterdir()) if place.is_dir() else []
        found[place.name] = [each for each in names if is_picture(each.name)]
        if len(found[place.name]) == count:
            return found[place.name]
    numbers = ", ".join(f"{len(names)} in {name}" for name, names in found.items())
    raise InputError(
        f"{path} has {count} poses but there are {numbers or 'no pictures'}; expected as many, for "
        "they belong together in the order of their names"
    )


def _factor(place: Path) -> tuple[bool, int, str]:
    number = place.name.removeprefix("images_")
    return not number.isdigit(), int(number) if number.isdigit() else 0, number


def _lens(width: float, height: float, focal: float, where: str) -> Lens:
    if width != round(width) or height != round(height):
        raise InputError(
            f"{where}: pictures of {width:g}x{height:g} pixels; expected whole numbers"
        )
    try:
        return Lens(round(width), round(height), focal, focal, width / 2, height / 2)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _seen(
    poses: npt.NDArray[np.float64], depths: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """What lies in the middle of the pictures at their least and largest depth (2 n, 3)."""
    eyes, axes = poses[:, None, :, 3], poses[:, None, :, 2]
    return np.asarray(eyes - depths[:, :, None] * axes).reshape(-1, 3)
