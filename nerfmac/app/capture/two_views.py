"""Matches of image pairs, and their comparison with camera poses.

COLMAP matches the features of two images and verifies the matches with an epipolar geometry,
without regard to other images. Camera poses agree with a pair if the viewing rays of most of its
matches intersect, within a tolerance in pixels and in front of both cameras. Matches of different
objects that look alike also have an epipolar geometry, so a pair alone does not prove poses wrong.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common import Float32Array, Float64Array
from nerfmac.geometry import Camera, Cameras, Lens, rays_through

Pair = tuple[str, str]
"""Sorted names of two images."""
Matches = Mapping[Pair, Float32Array]
"""Verified matches of each pair: the pixel positions (m, 4) of the features, x and y in the first
image and x and y in the second image."""
CameraMap = Mapping[str, Camera]
"""Cameras of images, by image name."""
MATCHES = "matches.npz"
TOLERANCE = 0.0025
"""Maximum error of a match, relative to the longer side of the image: 4 pixels of 1,600."""
MIN_TOLERANCE = 1.5  # Minimum of this error in pixels, for small images.
ROUNDS = 10  # Iterations of the robust fit of a rotation.
FOCALS = np.geomspace(0.5, 1.4, 30)
"""Focal lengths, relative to the longer side, for which rotations are fitted if no focal length is
known."""
MIN_TURNED, MIN_MOTION = 50, 0.03
"""Minimum number of matches and minimum median motion, relative to the longer side, of the pairs to
which rotations are fitted."""
MAX_PAIRS, MAX_MATCHES = 40, 200
"""Approximate maximum number of pairs, and of matches of a pair, to which rotations are fitted."""
PARALLAX = 10
"""Percentile, in the order of the shares of their matches that a rotation explains, of the pair
that decides. Pairs with little parallax exist in every capture, so pairs with much decide."""


class CapturedImage(NamedTuple):
    """Image in the folder `images`, with its focal length in pixels (0 if unknown)."""

    name: str
    width: int
    height: int
    focal: float

    def lens(self, relative: float = 0.0) -> Lens:
        """Return a lens without distortion, with the focal length `relative` to the longer side, by
        default the one of the image."""
        focal = relative * max(self.width, self.height) or self.focal
        return Lens(self.width, self.height, focal, focal, self.width / 2, self.height / 2)


def read_matches(path: Path) -> dict[Pair, Float32Array]:
    """Read the file that the stage `matches` of `colmap_process` writes."""
    with np.load(path, allow_pickle=False) as stored:
        names, pairs, ends = stored["names"].tolist(), stored["pairs"], stored["ends"]
        rows = np.split(stored["pixels"], ends[:-1]) if len(pairs) else []
    return {(names[i], names[j]): some for (i, j), some in zip(pairs.tolist(), rows, strict=True)}


def errors(matches: Matches, cameras: CameraMap) -> dict[Pair, Float64Array]:
    """Return the epipolar error (m,) of each match in pixels, for pairs with two cameras.

    The error is the angle between a viewing ray and the epipolar plane of the other ray, multiplied
    by the focal length. It is infinite if the rays intersect behind a camera.
    """
    pairs = [pair for pair in matches if pair[0] in cameras and pair[1] in cameras]
    if not pairs:
        return {}
    first, second = directions(matches, pairs, cameras)
    counts = [len(matches[pair]) for pair in pairs]
    eyes = np.array([[cameras[name].pose[:, 3] for name in pair] for pair in pairs], np.float64)
    between = np.repeat(eyes[:, 1] - eyes[:, 0], counts, axis=0)
    focal = np.repeat([cameras[one].lens.fl_x for one, _ in pairs], counts)
    error = focal * _out_of_plane(first, second, between)
    normal = np.cross(first, second)
    ahead = [(np.cross(between, ray) * normal).sum(1) for ray in (second, first)]
    # The sign of a depth is unreliable if the rays are nearly parallel.
    is_far = focal * np.linalg.norm(normal, axis=1) < MIN_TOLERANCE
    error[~is_far & ((ahead[0] <= 0) | (ahead[1] <= 0))] = np.inf
    parts = np.split(error, np.cumsum(counts)[:-1])
    return dict(zip(pairs, parts, strict=True))


def agreements(matches: Matches, cameras: CameraMap, limit: float = 0.0) -> dict[Pair, float]:
    """Return the fraction of the matches of each pair that agree with the cameras: matches with an
    error of less than `limit` pixels, or within the tolerance."""
    return {
        pair: float((error < max(limit, tolerance(cameras[pair[0]].lens))).mean())
        for pair, error in errors(matches, cameras).items()
    }


def tolerance(lens: Lens) -> float:
    """Return the maximum error of a match in pixels, for the size of the image."""
    return max(TOLERANCE * max(lens.size), MIN_TOLERANCE)


def directions(
    matches: Matches, pairs: Sequence[Pair], cameras: CameraMap
) -> tuple[Float64Array, Float64Array]:
    """Return the unit viewing directions (m, 3) of all matches, in both images of each pair."""
    names = sorted({name for pair in pairs for name in pair})
    index = {name: number for number, name in enumerate(names)}
    stacked = Cameras.stack([cameras[name] for name in names])
    counts = [len(matches[pair]) for pair in pairs]
    pixels = np.concatenate([matches[pair] for pair in pairs]).astype(np.float32)
    found = []
    for side in (0, 1):
        views = np.repeat([index[pair[side]] for pair in pairs], counts).astype(np.int32)
        at = mx.array(pixels[:, 2 * side : 2 * side + 2])
        rays = rays_through(stacked, mx.array(views), at)
        found.append(np.array(rays.direction).astype(np.float64))
    return found[0], found[1]


def _out_of_plane(first: Float64Array, second: Float64Array, between: Float64Array) -> Float64Array:
    """Return the angles (m,) in radians between rays and epipolar planes, as the larger of the two
    angles of a match. Without a distance between the cameras, it is the angle between the rays."""
    angles = []
    for one, other in ((first, second), (second, first)):
        normal = np.cross(between, one)
        length = np.linalg.norm(normal, axis=1)
        sine = np.abs((normal * other).sum(1)) / np.maximum(length, 1e-12)
        straight = np.linalg.norm(np.cross(one, other), axis=1)
        angles.append(np.where(length > 1e-9, sine, straight))
    return np.arcsin(np.minimum(np.maximum(*angles), 1.0))


def turned_share(matches: Matches, lenses: Mapping[str, Lens]) -> float:
    """Return the fraction of matches that a rotation of the camera alone explains, in pairs with
    much parallax.

    The result is close to 1 if the camera turned in place, and 0 if it did not move at all. Pairs
    with few matches or little motion, and images without a lens, are ignored. The focal lengths
    must be known: images of a plane look like images of a camera with a long focal length that
    turns.
    """
    cameras = {name: Camera(lens, np.eye(3, 4)) for name, lens in lenses.items()}
    pairs = [
        pair
        for pair, some in matches.items()
        if len(some) >= MIN_TURNED
        and cameras.keys() >= {*pair}
        and np.median(np.linalg.norm(some[:, 2:] - some[:, :2], axis=1))
        > MIN_MOTION * max(cameras[pair[0]].lens.size)
    ]
    pairs = pairs[:: max(len(pairs) // MAX_PAIRS, 1)]
    if not pairs:
        return 0.0
    few = {pair: matches[pair][:: max(len(matches[pair]) // MAX_MATCHES, 1)] for pair in pairs}
    ends = np.cumsum([len(some) for some in few.values()])[:-1]
    first, second = (np.split(rays, ends) for rays in directions(few, pairs, cameras))
    shares = []
    for pair, one, other in zip(pairs, first, second, strict=True):
        camera = cameras[pair[0]]
        limit = tolerance(camera.lens) / camera.lens.fl_x
        shares.append((_rotation_errors(one, other, limit) < limit).mean())
    return float(np.percentile(shares, PARALLAX))


def turned_share_of(matches: Matches, images: Sequence[CapturedImage]) -> float:
    """Return the largest `turned_share` for images whose focal length may be unknown."""

    def share(relative: float) -> float:
        return turned_share(
            matches, {im.name: im.lens(0 if im.focal else relative) for im in images}
        )

    if all(image.focal for image in images):
        return share(0.0)
    best = max(FOCALS, key=share)
    return max(share(best * factor) for factor in (0.98, 0.99, 1.0, 1.01, 1.02))


def _rotation_errors(first: Float64Array, second: Float64Array, limit: float) -> Float64Array:
    """Return the distances (m,) of the directions (m, 3) of matches for the best rotation. `limit`
    is the distance up to which matches count fully."""
    weight = np.ones(len(first))
    for _ in range(ROUNDS):  # Iteratively reweighted least squares, for the sum of distances.
        left, _, right = np.linalg.svd((second * weight[:, None]).T @ first)
        turn = left * [1.0, 1.0, np.sign(np.linalg.det(left @ right))] @ right
        distance: Float64Array = np.linalg.norm(second - first @ turn.T, axis=1)
        weight = 1 / np.maximum(distance, limit)
    return distance
