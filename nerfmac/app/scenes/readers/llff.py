"""LLFF format (Mildenhall et al. 2019): `poses_bounds.npy`, and sorted images in `images` or
`images_N`. A row contains [R | t | (height, width, focal length in pixels)], 3x5, and the minimum
and maximum depth. Poses map camera to world coordinates, with camera axes down, right, backward."""

from pathlib import Path

import numpy as np

from nerfmac.app.scenes.images import image_files, inspect_all
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage, rigid
from nerfmac.common import LARGEST, Float64Array, InputError, counted, prefix_errors
from nerfmac.geometry import Lens

FILE_NAME = "poses_bounds.npy"


def read_llff(path: Path) -> ParsedScene:
    """Read the scene of a `poses_bounds.npy` file."""
    table = _table(path)
    files, images = _images(path.parent, len(table), path), []
    for index, photo in inspect_all(dict(enumerate(files))).items():
        where = f"{path}, row {index}"
        down, right, backwards, position, (height, width, focal) = table[index, :15].reshape(3, 5).T
        pose = rigid(np.stack([right, -down, backwards, position], axis=1), where)
        images.append(PosedImage.of(photo, where, _lens(width, height, focal, where), pose))
    poses, depths = np.stack([image.pose for image in images])[:, None], table[:, 15:, None]
    # Points on the optical axes at the minimum and the maximum depth.
    points = (poses[..., 3] - depths * poses[..., 2]).reshape(-1, 3)
    return ParsedScene(str(path.parent), path.parent, images, points=points)


def _table(path: Path) -> Float64Array:
    try:
        # With mmap, no memory is allocated if the header claims more data than the file contains.
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy's header parser raises arbitrary Python exceptions.
        expected = "expected floats with shape (images, 17)"
        raise InputError(f"{path} is not a NumPy array: {error}; {expected}") from error
    if not isinstance(table, np.ndarray):
        raise InputError(f"{path} is an archive of arrays; expected one array, as of numpy.save")
    if table.ndim != 2 or table.shape[1] != 17 or not len(table) or table.dtype.kind != "f":
        found = f"{table.dtype} with shape {table.shape}"
        raise InputError(f"{path} contains {found}; expected floats with shape (images, 17)")
    table = table.astype(np.float64)  # In half precision, LARGEST is infinity and LAPACK hangs.
    if not (np.abs(table) <= LARGEST).all():
        raise InputError(f"{path} contains a number that is not finite; expected finite poses")
    return table


def _images(folder: Path, count: int, path: Path) -> list[Path]:
    """Return the images in the first of the folders `images`, `images_2`, ... with exactly `count`
    images, sorted by file name."""
    found = {}
    others = sorted(folder.glob("images_*"), key=lambda path: counted(path.name))
    for image_folder in (folder / "images", *others):
        found[image_folder.name] = image_files(image_folder)
        if len(found[image_folder.name]) == count:
            return found[image_folder.name]
    numbers = ", ".join(f"{len(names)} in {name}" for name, names in found.items())
    raise InputError(
        f"{path} has {count} poses, but there are {numbers or 'no images'}; the number must be "
        "equal, because images and poses are matched in name order"
    )


def _lens(width: float, height: float, focal: float, where: str) -> Lens:
    if width != round(width) or height != round(height):
        raise InputError(f"{where}: the image size is {width:g}x{height:g}; expected whole numbers")
    with prefix_errors(where):
        return Lens(round(width), round(height), focal, focal, width / 2, height / 2)
