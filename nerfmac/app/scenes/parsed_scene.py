"""`ParsedScene`, the contents of scene files that a reader returns, and the numbers and poses in
these files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from nerfmac.app.scenes.depth_images import DepthImage
from nerfmac.app.scenes.images import Photo, same_aspect
from nerfmac.common import LARGEST, Float64Array, InputError
from nerfmac.geometry import Direction, Lens, Placement, Tracks

RIGID_WITHIN = 1e-2  # Maximum entry of |R^T R - I| that counts as a rounding error of a rotation R.
OPENCV = np.array([1.0, -1.0, -1.0, 1.0])
"""Factors of the columns of a pose that replace OpenCV camera axes (y down, z forward) by OpenGL
camera axes, or the reverse."""


class PosedImage(NamedTuple):
    """Photo with its camera intrinsics, pose, name, depth image, and mask.

    The pose (3, 4) is a camera-to-world matrix with OpenGL axes, in the coordinates of the scene
    files. If `is_upright` is True, the intrinsics belong to the image after applying the EXIF
    orientation. Otherwise, they belong to the image as stored.
    """

    photo: Photo
    lens: Lens
    pose: Float64Array
    name: str
    depth: DepthImage | None = None
    mask: Path | None = None
    is_upright: bool = True

    @classmethod
    def of(cls, photo: Photo, where: str, lens: Lens, pose: Float64Array, name: str = "") -> Self:
        """Create a posed image with the intrinsics scaled to the image size. If the intrinsics have
        the aspect ratio of the stored image but not of the upright image, the EXIF orientation is
        ignored, as some programs do. `where` is the position of the camera in the scene files, for
        the error message. The default name is the file name."""
        posed = cls(photo, lens, pose, name or photo.path.name)
        if lens.size == photo.size:
            return posed
        for upright in (True, False):
            if posed.fits(upright):
                return posed.read(upright)
        raise InputError(
            f"{photo.path} has {photo.width}x{photo.height} pixels, but the camera intrinsics in "
            f"{where} are for {lens.width}x{lens.height}, which has another aspect ratio; use the "
            "images that the cameras were estimated from"
        )

    def fits(self, upright: bool) -> bool:
        """Return whether the image, upright or as stored, has the aspect ratio of the lens."""
        size = self.photo.size if upright else self.photo.stored_size
        return same_aspect(self.lens.size, size)

    def read(self, upright: bool) -> Self:
        """Return a copy for reading the image upright or as stored, with scaled intrinsics."""
        size = self.photo.size if upright else self.photo.stored_size
        return self._replace(is_upright=upright, lens=self.lens.scaled(*size))

    @property
    def is_ambiguous(self) -> bool:
        """Whether the intrinsics match both the upright and the stored size of a rotated image."""
        return self.photo.orientation != 1 and self.fits(upright=True) and self.fits(upright=False)


class ParsedScene(NamedTuple):
    """Images, cameras, and sparse points of scene files, in the coordinates of these files.

    Attributes:
        source: File or folder for messages.
        folder: Scene folder; its name is the scene name.
        images: Images with cameras.
        up: Up direction, or None if the axes of the files are arbitrary and `assemble` must level
            the scene.
        points: Sparse points (n, 3), or None.
        placement: Placement that the files specify, or None to fit one to cameras and points.
        splits: Indices into `images`, keyed by split name, or None if the files have no splits.
        tracks: Observations of the sparse points in `images`, or None.
        is_metric: Whether the poses are in the units of the depth images.
        unused: Images that the files exclude, and that have been reported already.
    """

    source: str
    folder: Path
    images: Sequence[PosedImage]
    up: Direction | None = None
    points: Float64Array | None = None
    placement: Placement | None = None
    splits: Mapping[str, Sequence[int]] | None = None
    tracks: Tracks | None = None
    is_metric: bool = True
    unused: Sequence[Path] = ()
    is_reported: bool = False  # Whether the images without a camera have been reported already.


def read_numbers(path: Path) -> Float64Array:
    """Return all numbers (n,) in a text file, row by row."""
    try:
        return finite_numbers(path.read_text().replace(",", " ").split(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a text file of numbers: {error}") from error


def finite_numbers(words: list[str], path: Path) -> Float64Array:
    """Convert words in a file to finite numbers (n,)."""
    try:
        numbers = np.array(words, np.float64)
    except ValueError as error:
        raise InputError(f"{path} is not a text file of numbers: {error}") from error
    if not (np.abs(numbers) <= LARGEST).all():
        raise InputError(f"{path} contains a number that is not finite")
    return numbers


def rigid(matrix: Float64Array, where: str, *, mirrored: bool = False) -> Float64Array:
    """Return the pose `matrix` (3, 4) with an exactly orthonormal rotation. If `mirrored` is True,
    the determinant of the rotation must be -1 instead of 1. `where` is the position in the file,
    for the error message."""
    rotation = matrix[:, :3]
    error = float(np.abs(rotation.T @ rotation - np.eye(3)).max())
    if error > RIGID_WITHIN:
        found = f"the error of its columns from unit length and right angles is {error:.3g}"
        raise InputError(f"{where} is not rigid: {found}; expected a rotation and a position")
    if bool(np.linalg.det(rotation) < 0) != mirrored:
        raise InputError(f"{where} is a reflection; expected a rotation with determinant 1")
    left, _, right = np.linalg.svd(rotation)
    return np.concatenate([left @ right, matrix[:, 3:]], axis=1)


def rotation_of(quaternion: Sequence[float], where: str) -> Float64Array:
    """Convert a quaternion (w, x, y, z) of any positive length to a rotation matrix (3, 3)."""
    w, x, y, z = quaternion
    length = w * w + x * x + y * y + z * z
    if not 1e-12 < length < LARGEST:
        raise InputError(f"{where} has the quaternion {list(quaternion)}, which is not a rotation")
    s = 2.0 / length
    rotation = [
        [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
        [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
        [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
    ]
    return np.array(rotation)


def pose_of(position: Sequence[float], quaternion: Sequence[float], where: str) -> Float64Array:
    """Return the pose (3, 4) with a position and a quaternion (x, y, z, w), as phones and robots
    write it."""
    x, y, z, w = quaternion
    return np.column_stack([rotation_of((w, x, y, z), where), position])
