"""`PosedImage`, an image file of a scene with its camera intrinsics and pose, and the choice
between reading images as stored and rotating them by their EXIF orientation.

COLMAP and instant-ngp ignore the EXIF orientation, and other programs apply it. The first decisive
criterion determines the choice for all images of a scene:

1. Image sizes: camera intrinsics match either a portrait or a landscape image.
2. Sparse points: with the correct choice, a point has the same color in all images.
3. If neither criterion is decisive, images are read as stored.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

import mlx.core as mx
import numpy as np
from PIL import Image

from nerfmac.app.scenes.depth_images import DepthImage
from nerfmac.app.scenes.images import Header, decode_reduced, inspect, same_aspect
from nerfmac.app.scenes.scene import Frame
from nerfmac.common import BoolArray, Float64Array, InputError, Int64Array, log
from nerfmac.geometry import Camera, Lens, Placement, Tracks, distort

MAX_POINTS = 4000  # Maximum number of sparse points for comparing colors.
MAX_VIEWS, NEIGHBORS = 6, 3
"""Maximum number of undecided images, and of images that each of them is compared with."""
SIDE = 512  # Longer side, in pixels, of the downscaled images that are used for reading colors.
MIN_OBSERVATIONS = 40
"""Sparse points are decisive only if at least this number of observations is available."""
CLEAR = 0.2
"""Sparse points are decisive only if the two color correlations differ by at least this value."""


class CameraEntry(NamedTuple):
    """Camera of an image in scene files: its position in these files for error messages, its
    intrinsics, and its camera-to-world pose (3, 4) with OpenGL axes. The default name of the image
    is its file name."""

    where: str
    lens: Lens
    pose: Float64Array
    name: str = ""
    depth: DepthImage | None = None
    mask: Path | None = None


class PosedImage(NamedTuple):
    """Image file with its header, name, camera intrinsics, pose, mask, and depth image.

    The pose (3, 4) is a camera-to-world matrix with OpenGL axes, in the coordinates of the scene
    files. If `is_upright` is True, the intrinsics belong to the image after applying the EXIF
    orientation. Otherwise, they belong to the image as stored.
    """

    image: Path
    header: Header
    name: str
    lens: Lens
    pose: Float64Array
    is_upright: bool = True
    mask: Path | None = None
    depth: DepthImage | None = None

    @classmethod
    def of(cls, image: Path, header: Header, entry: CameraEntry) -> Self:
        """Create a posed image with the intrinsics scaled to the image size. If the intrinsics have
        the aspect ratio of the stored image but not of the upright image, the EXIF orientation is
        ignored, as some programs do."""
        where, lens, pose, name, depth, mask = entry
        posed = cls(image, header, name or image.name, lens, pose, mask=mask, depth=depth)
        if has_aspect(lens, header.width, header.height):
            return posed.read(upright=True)
        if has_aspect(lens, *header.stored_size):
            return posed.read(upright=False)
        raise InputError(
            f"{image} has {header.width}x{header.height} pixels, but the camera intrinsics in "
            f"{where} are for {lens.width}x{lens.height}, which has another aspect ratio; use the "
            "images that the cameras were estimated from"
        )

    def read(self, upright: bool) -> Self:
        """Return a copy for reading the image upright or as stored, with scaled intrinsics."""
        size = self.header[:2] if upright else self.header.stored_size
        return self._replace(is_upright=upright, lens=self.lens.scaled(*size))

    @property
    def is_ambiguous(self) -> bool:
        """Whether the intrinsics match both the upright and the stored size of a rotated image."""
        both = self.header[:2], self.header.stored_size
        return self.header.orientation != 1 and all(has_aspect(self.lens, *size) for size in both)

    def placed(self, placement: Placement) -> Frame:
        """Return the frame with its pose in scene coordinates."""
        camera = Camera(self.lens, placement.apply(self.pose))
        depth = self.depth and self.depth.scaled(placement.scale)
        upright = self.is_upright
        return Frame(camera, self.image, self.name, is_upright=upright, mask=self.mask, depth=depth)


def posed_images(
    files: Mapping[int, Path], entry_of: Callable[[int, Header], CameraEntry]
) -> list[PosedImage]:
    """Return the images in `files`, keyed by number, with their cameras. `entry_of` returns the
    camera for the number and the header of an image."""
    with ThreadPoolExecutor() as pool:
        headers = list(pool.map(inspect, files.values()))
    return [
        PosedImage.of(path, header, entry_of(number, header))
        for (number, path), header in zip(files.items(), headers, strict=True)
    ]


def has_aspect(lens: Lens, width: int, height: int) -> bool:
    """Return whether the intrinsics and an image have the same aspect ratio."""
    return same_aspect((lens.width, lens.height), (width, height))


def oriented(
    images: Sequence[PosedImage], points: Float64Array | None, tracks: Tracks | None, where: str
) -> list[PosedImage]:
    """Choose whether the EXIF orientation is applied to ambiguous images, those whose intrinsics
    match the upright and the stored size.

    The choice is the same for all ambiguous images. If any image with an EXIF orientation is
    ambiguous or read as stored, the choice and its reason are logged. `where` is the file or folder
    for the message. The result contains copies of the images with the chosen `is_upright` and
    intrinsics.
    """
    undecided = [index for index, image in enumerate(images) if image.is_ambiguous]
    decided = {p.is_upright for p in images if p.header.orientation != 1 and not p.is_ambiguous}
    upright, reason = False, ""
    if undecided and len(decided) == 1:
        (upright,) = decided
        reason = "as the sizes of the other images require"
    elif undecided:
        by_points = _by_points(images, points, tracks, undecided)
        upright = bool(by_points)
        reason = "because sparse points then have the same color in all images"
        if by_points is None:
            reason = (
                "like COLMAP and instant-ngp, because neither sizes nor sparse points are "
                "decisive; if the result is wrong, rotate the images or remove the tag"
            )
    read = [image.read(upright) if image.is_ambiguous else image for image in images]
    _report(read, len(undecided), where, reason)
    return read


def _report(images: Sequence[PosedImage], undecided: int, where: str, reason: str) -> None:
    tagged = [image for image in images if image.header.orientation != 1]
    stored = [image for image in tagged if not image.is_upright]
    if not undecided and not stored:
        return
    shown = stored or tagged
    log.warning(
        f"{len(tagged)} of {len(images)} images of {where} have an EXIF orientation, such as "
        f"{shown[0].image}: {len(stored) or 'none'} of them {'is' if len(stored) < 2 else 'are'} "
        f"read as stored, {reason or 'because the camera intrinsics match that size'}"
    )


def _by_points(
    images: Sequence[PosedImage],
    points: Float64Array | None,
    tracks: Tracks | None,
    undecided: Sequence[int],
) -> bool | None:
    """Return whether the EXIF orientation must be applied to the ambiguous images, so that sparse
    points have the same color in all images, or None if the colors are not decisive."""
    if points is None or len(points) < MIN_OBSERVATIONS:
        return None
    seen, pixel = _observations(images, points, tracks)
    chosen = np.array(undecided)[:: -(-len(undecided) // MAX_VIEWS)]
    fixed = np.setdiff1d(np.arange(len(seen)), undecided)
    views = chosen, fixed
    stored, upright = (_likeness(images, seen, pixel, views, turn) for turn in (False, True))
    if np.isnan(stored) or np.isnan(upright) or abs(upright - stored) < CLEAR:
        return None
    return upright > stored


def _observations(
    images: Sequence[PosedImage], points: Float64Array, tracks: Tracks | None
) -> tuple[BoolArray, Float64Array]:
    """Return which images show which points (images, points), and pixels (images, points, 2)."""
    if tracks is not None:
        points = tracks.points
    step = -(-len(points) // MAX_POINTS)
    points = points[::step]
    if tracks is not None:
        seen = np.zeros((len(images), len(points)), bool)
        pixel = np.zeros((*seen.shape, 2))
        tracks = tracks.observed(tracks.point % step == 0)
        seen[tracks.view, tracks.point // step] = True
        pixel[tracks.view, tracks.point // step] = tracks.pixel
        return seen, pixel
    projected = [project(points, image.pose, image.lens) for image in images]
    return np.stack([seen for seen, _ in projected]), np.stack([pixel for _, pixel in projected])


def project(points: Float64Array, pose: Float64Array, lens: Lens) -> tuple[BoolArray, Float64Array]:
    """Return which points (n,) are in an image, ignoring occlusion, and their pixels (n, 2)."""
    local = (points - pose[:, 3]) @ pose[:, :3] * (1.0, -1.0, -1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = local[:, :2] / local[:, 2:]
    if lens.is_fisheye:
        radius = np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-9)
        direction = direction * np.arctan(radius) / radius
    if lens.is_distorted:
        direction = np.array(distort(mx.array(direction, mx.float32), mx.array([lens.distortion])))
    pixel = direction.astype(np.float64) * (lens.fl_x, lens.fl_y) + (lens.cx, lens.cy)
    is_inside = np.all((pixel >= 0) & (pixel < (lens.width, lens.height)), axis=1)
    return is_inside & (local[:, 2] > 0), np.nan_to_num(pixel)


def _likeness(
    images: Sequence[PosedImage],
    seen: BoolArray,
    pixel: Float64Array,
    views: tuple[Int64Array, Int64Array],
    upright: bool,
) -> float:
    """Return the correlation of the colors that sparse points have in ambiguous images with the
    colors of the same points in other images.

    `views` contains the indices of the ambiguous images and of the other images. If there are no
    other images, ambiguous images are compared with each other. The result is NaN if fewer than
    `MIN_OBSERVATIONS` colors are available.
    """
    chosen, fixed = views

    @cache
    def colors(index: int) -> Float64Array:
        return _colors(images[index].read(upright), pixel[index])

    ours, theirs = [], []
    for index in chosen.tolist():
        others = fixed if len(fixed) else chosen[chosen != index]
        shared = (seen[index] & seen[others]).sum(axis=1)
        for other in others[np.argsort(-shared, kind="stable")[:NEIGHBORS]].tolist():
            both = seen[index] & seen[other]
            ours.append(colors(index)[both])
            theirs.append(colors(other)[both])
    one, two = (np.concatenate(parts) if parts else np.zeros((0, 3)) for parts in (ours, theirs))
    if len(one) < MIN_OBSERVATIONS or min(one.std(), two.std()) < 1.0:
        return float("nan")
    return float(np.corrcoef(one.ravel(), two.ravel())[0, 1])


def _colors(posed: PosedImage, pixel: Float64Array) -> Float64Array:
    """Read RGB colors (n, 3), 0 to 255, at positions (n, 2) from a downscaled copy of an image."""
    pixels = decode_reduced(posed.image, posed.name, upright=posed.is_upright)
    image = Image.fromarray(pixels[..., :3])
    width, height = image.size
    image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    small = pixel * (image.width / width, image.height / height)
    column, row = (np.clip(small[:, i], 0, image.size[i] - 1).astype(int) for i in (0, 1))
    return np.asarray(image, np.float64)[row, column]
