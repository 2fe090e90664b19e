"""The choice between reading images as stored and rotating them by their EXIF orientation.

COLMAP and instant-ngp ignore the EXIF orientation, and other programs apply it. The first decisive
criterion determines the choice for all images of a scene:

1. Image sizes: camera intrinsics match either a portrait or a landscape image.
2. Sparse points: with the correct choice, a point has the same color in all images.
3. If neither criterion is decisive, images are read as stored.
"""

from collections.abc import Sequence
from functools import cache

import mlx.core as mx
import numpy as np
from PIL import Image

from nerfmac.app.scenes.images import decode_reduced
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage
from nerfmac.common import BoolArray, Float64Array, log
from nerfmac.geometry import Lens, Tracks, distort

MAX_POINTS = 4000  # Maximum number of sparse points for comparing colors.
MAX_VIEWS, NEIGHBORS = 6, 3
"""Maximum number of undecided images, and of images that each of them is compared with."""
SIDE = 512  # Longer side, in pixels, of the downscaled images that are used for reading colors.
MIN_OBSERVATIONS = 40
"""Sparse points are decisive only if at least this number of observations is available."""
CLEAR = 0.2
"""Sparse points are decisive only if the two color correlations differ by at least this value."""


Pair = tuple[int, int, BoolArray]
"""Indices of an ambiguous image and of an image to compare it with, which is ambiguous too if there
are no others, and the points (n,) that both show."""


def oriented(parsed: ParsedScene) -> list[PosedImage]:
    """Choose whether the EXIF orientation is applied to ambiguous images, those whose intrinsics
    match the upright and the stored size.

    The choice is the same for all ambiguous images. If any image with an EXIF orientation is
    ambiguous or read as stored, the choice and its reason are logged. The result contains copies of
    the images with the chosen `is_upright` and intrinsics.
    """
    images = parsed.images
    undecided = [index for index, image in enumerate(images) if image.is_ambiguous]
    decided = {p.is_upright for p in images if p.photo.orientation != 1 and not p.is_ambiguous}
    upright, reason = False, ""
    if undecided and len(decided) == 1:
        (upright,) = decided
        reason = "as the sizes of the other images require"
    elif undecided:
        by_points = _by_points(parsed, undecided)
        upright = bool(by_points)
        reason = "because sparse points then have the same color in all images"
        if by_points is None:
            reason = (
                "like COLMAP and instant-ngp, because neither sizes nor sparse points are "
                "decisive; if the result is wrong, rotate the images or remove the tag"
            )
    read = [image.read(upright) if image.is_ambiguous else image for image in images]
    tagged = [image for image in read if image.photo.orientation != 1]
    stored = [image for image in tagged if not image.is_upright]
    if undecided or stored:
        verb = "is" if len(stored) < 2 else "are"
        log.warning(
            f"{len(tagged)} of {len(images)} images of {parsed.source} have an EXIF orientation, "
            f"such as {(stored or tagged)[0].photo.path}: {len(stored) or 'none'} of them {verb} "
            f"read as stored, {reason or 'because the camera intrinsics match that size'}"
        )
    return read


def _by_points(parsed: ParsedScene, undecided: Sequence[int]) -> bool | None:
    """Return whether the EXIF orientation must be applied to the ambiguous images, so that sparse
    points have the same color in all images, or None if the colors are not decisive."""
    images, points = parsed.images, parsed.points
    if points is None or len(points) < MIN_OBSERVATIONS:
        return None
    seen, pixel = _observations(images, points, parsed.tracks)
    chosen = np.array(undecided)[:: -(-len(undecided) // MAX_VIEWS)]
    fixed = np.setdiff1d(np.arange(len(seen)), undecided)
    pairs: list[Pair] = []
    for index in chosen.tolist():
        others = fixed if len(fixed) else chosen[chosen != index]
        shared = (seen[index] & seen[others]).sum(axis=1)
        nearest = others[np.argsort(-shared, kind="stable")[:NEIGHBORS]].tolist()
        pairs += [(index, other, seen[index] & seen[other]) for other in nearest]
    stored, upright = (_likeness(images, pixel, pairs, turn) for turn in (False, True))
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
    is_inside = np.all((pixel >= 0) & (pixel < lens.size), axis=1)
    return is_inside & (local[:, 2] > 0), np.nan_to_num(pixel)


def _likeness(
    images: Sequence[PosedImage], pixel: Float64Array, pairs: Sequence[Pair], upright: bool
) -> float:
    """Return the correlation of the colors that sparse points have in ambiguous images with the
    colors of the same points in other images. The result is NaN if fewer than `MIN_OBSERVATIONS`
    colors are available."""

    @cache
    def colors(index: int) -> Float64Array:
        return _colors(images[index].read(upright), pixel[index])

    none = [np.zeros((0, 3))]
    ours = np.concatenate(none + [colors(index)[both] for index, _, both in pairs])
    theirs = np.concatenate(none + [colors(other)[both] for _, other, both in pairs])
    if len(ours) < MIN_OBSERVATIONS or min(ours.std(), theirs.std()) < 1.0:
        return float("nan")
    return float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1])


def _colors(posed: PosedImage, pixel: Float64Array) -> Float64Array:
    """Read RGB colors (n, 3), 0 to 255, at positions (n, 2) from a downscaled copy of an image."""
    pixels = decode_reduced(posed.photo.path, posed.name, upright=posed.is_upright)
    image = Image.fromarray(pixels[..., :3])
    width, height = image.size
    image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    small = pixel * (image.width / width, image.height / height)
    column, row = (np.clip(small[:, i], 0, image.size[i] - 1).astype(int) for i in (0, 1))
    return np.asarray(image, np.float64)[row, column]
