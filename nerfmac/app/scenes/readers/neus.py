"""NeuS and IDR format (Wang et al. 2021, Yariv et al. 2020): `cameras_sphere.npz` or `cameras.npz`,
and sorted images in `image`. The array `world_mat_N` is the matrix K [R | t], padded to 4x4, that
projects world coordinates to pixels of image N. Masks are in the folder `mask`. The arrays
`scale_mat_N`, which describe a sphere around the object, are not used."""

from pathlib import Path

import numpy as np

from nerfmac.app.scenes.images import Photo, image_files, inspect_all
from nerfmac.app.scenes.parsed_scene import OPENCV, ParsedScene, PosedImage, rigid
from nerfmac.common import LARGEST, Float64Array, InputError, prefix_errors
from nerfmac.geometry import Lens

FILE_NAMES = ("cameras_sphere.npz", "cameras.npz")
IMAGE_FOLDERS = ("image", "images", "rgb")
MATRIX = "world_mat_{}"
DIGITS = 6  # Decimals of intrinsics in pixels. The images of one camera have equal intrinsics.
MAX_SKEW = 1e-2  # Maximum skew of the pixels, relative to the focal length.


def cameras_of(folder: Path) -> Path | None:
    """Return the camera file of the NeuS scene in `folder`, or None."""
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def read_neus(path: Path) -> ParsedScene:
    """Read the scene of a `cameras_sphere.npz` file."""
    matrices = _matrices(path)
    folders = [path.parent / name for name in IMAGE_FOLDERS]
    folder = next(filter(Path.is_dir, folders), folders[0])
    files = image_files(folder)
    if len(files) != len(matrices):
        raise InputError(
            f"{path} has {len(matrices)} cameras, but {folder} contains {len(files)} images; the "
            "number must be equal, because images and cameras are matched in name order"
        )
    images = []
    for index, photo in inspect_all(dict(enumerate(files))).items():
        where = f"{path}, {MATRIX.format(index)}"
        images.append(PosedImage.of(photo, where, *_camera(matrices[index], photo, where)))
    return ParsedScene(str(path.parent), path.parent, images)


def _matrices(path: Path) -> list[Float64Array]:
    """Return the projection matrices (3, 4), in the order of their numbers."""
    found: list[Float64Array] = []
    try:
        with np.load(path, allow_pickle=False) as arrays:
            while MATRIX.format(len(found)) in arrays:
                found.append(np.asarray(arrays[MATRIX.format(len(found))], np.float64))
    except Exception as error:  # The readers of NumPy and of ZIP files raise various exceptions.
        raise InputError(f"{path} is not a readable archive of arrays: {error}") from error
    if not found:
        raise InputError(f"{path} contains no array {MATRIX.format(0)}; expected one per image")
    for index, matrix in enumerate(found):
        if matrix.shape not in ((3, 4), (4, 4)) or not (np.abs(matrix) <= LARGEST).all():
            given = f"has the shape {matrix.shape} or numbers that are not finite"
            expected = "expected 4x4 finite numbers"
            raise InputError(f"{path}: {MATRIX.format(index)} {given}; {expected}")
    return [matrix[:3] for matrix in found]


def _camera(matrix: Float64Array, image: Photo, where: str) -> tuple[Lens, Float64Array]:
    """Decompose a projection matrix (3, 4) into camera intrinsics and a pose with OpenGL axes."""
    if abs(np.linalg.det(matrix[:, :3])) < 1e-12:
        raise InputError(f"{where} is singular; expected K [R | t]")
    if np.linalg.det(matrix[:, :3]) < 0:  # The sign of a projection matrix has no meaning.
        matrix = -matrix
    # RQ decomposition: the inverse of K R has the QR decomposition (R^-1) (K^-1).
    turn, upper = np.linalg.qr(np.linalg.inv(matrix[:, :3]))
    signs = np.sign(np.diag(upper))
    k = np.linalg.inv(upper * signs[:, None])
    k = np.round(k / k[2, 2], DIGITS)
    if abs(k[0, 1]) > MAX_SKEW * abs(k[0, 0]):
        raise InputError(f"{where} has pixels with the skew {k[0, 1]:.3g}; expected no skew")
    eye = -np.linalg.inv(matrix[:, :3]) @ matrix[:, 3]
    pose = np.column_stack([turn * signs, eye]) * OPENCV
    with prefix_errors(where):
        lens = Lens(image.width, image.height, k[0, 0], k[1, 1], k[0, 2], k[1, 2])
    return lens, rigid(pose, where)
