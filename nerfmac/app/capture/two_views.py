"""Matches of image pairs, and their comparison with camera poses.

COLMAP matches the features of two images and verifies the matches with an epipolar geometry,
without regard to other images. Camera poses agree with a pair if the viewing rays of most of its
matches intersect, within a tolerance in pixels and in front of both cameras. Matches of different
objects that look alike also have an epipolar geometry, so a pair alone does not prove poses wrong.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.common import Float32Array, Float64Array, Int64Array, UInt8Array
from nerfmac.geometry import Camera, Cameras, Lens, rays_through

Pair = tuple[str, str]
"""Sorted names of two images."""
Matches = Mapping[Pair, Float32Array]
"""Verified matches of each pair: the pixel positions (m, 4) of the features, x and y in the first
image and x and y in the second image."""
CameraMap = Mapping[str, Camera]
"""Cameras of images, by image name."""
MAX_IMAGES = 2**31 - 1  # Factor of an image ID in the IDs of pairs in COLMAP's database.
TOLERANCE = 0.0025
"""Maximum error of a match, relative to the longer side of the image: 4 pixels of 1,600."""
MIN_TOLERANCE = 1.5  # Minimum of this error in pixels, for small images.
AS_GIVEN = np.eye(3)[None]  # Axes of positions that are not changed.
SHORTEST = 1e-9  # Distance between two cameras below which rays must be parallel.
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


def read_features(path: Path, names: Sequence[str]) -> dict[str, UInt8Array]:
    """Read the descriptors (n, 128) of the features of each image from COLMAP's database."""
    named, found = _stored(path, names, "descriptors", np.uint8)
    none = np.zeros((0, 128), np.uint8)
    return {name: found.get(image, none) for image, name in named.items()}


def read_matches(path: Path, names: Sequence[str]) -> dict[Pair, Float32Array]:
    """Read the verified matches from COLMAP's database."""
    named, positions = _stored(path, names, "keypoints", np.float32)
    pixels = {named[image]: rows[:, :2] for image, rows in positions.items()}
    matches = {}
    for pair, rows in _stored(path, names, "two_view_geometries", np.uint32)[1].items():
        # The ID of a pair consists of the IDs of its images.
        ends = zip((named[image] for image in divmod(pair, MAX_IMAGES)), rows.T, strict=True)
        (one, first), (other, second) = sorted(ends, key=itemgetter(0))
        matches[one, other] = np.hstack([pixels[one][first], pixels[other][second]])
    return matches


def _stored(
    path: Path, names: Sequence[str], table: str, kind: type[np.generic]
) -> tuple[dict[int, str], dict[int, npt.NDArray[Any]]]:
    """Return the names of the images in COLMAP's database, and the arrays in a table, both by ID
    (COLMAP's "Database Format"). The number in a COLMAP name is the index in `names`."""
    with closing(sqlite3.connect(path)) as database:
        images = database.execute("SELECT image_id, name FROM images").fetchall()
        query = f"SELECT rowid, rows, cols, data FROM {table} WHERE rows > 0"
        found = database.execute(query).fetchall()
    arrays = {n: np.frombuffer(data, kind).reshape(rows, cols) for n, rows, cols, data in found}
    return {image: names[int(name[:6])] for image, name in images}, arrays


class Rays(NamedTuple):
    """Viewing rays of matches in camera coordinates with OpenGL axes: unit directions (m, 3) in
    both images, the indices (m,) of the images, and focal lengths (m,) in pixels."""

    first: Float64Array
    second: Float64Array
    images: tuple[Int64Array, Int64Array]
    focal: Float64Array


def rays_of(matches: Matches, lenses: Mapping[str, Lens]) -> Rays:
    """Return the rays of all matches. Images are numbered in the order of `lenses`."""
    number = {name: index for index, name in enumerate(lenses)}
    cameras = Cameras.stack([Camera(lens, np.eye(3, 4)) for lens in lenses.values()])
    pixels = np.concatenate([*matches.values()]).astype(np.float32)
    counts = [len(some) for some in matches.values()]
    one, other = (np.repeat([number[pair[side]] for pair in matches], counts) for side in (0, 1))
    first, second = (
        rays_through(cameras, mx.array(images, mx.int32), mx.array(at)).direction
        for images, at in ((one, pixels[:, :2]), (other, pixels[:, 2:]))
    )
    focal = np.array([lens.fl_x for lens in lenses.values()])[one]
    return Rays(np.array(first, np.float64), np.array(second, np.float64), (one, other), focal)


def errors_of(
    rays: Rays, poses: Float64Array, axes: Float64Array = AS_GIVEN, sure: float = 0.0
) -> Float64Array:
    """Return the epipolar error (m, a) of each match in pixels, for camera-to-world `poses`
    (n, 3, 4) whose positions are multiplied by each of the matrices `axes` (a, 3, 3).

    The error is the angle between a viewing ray and the epipolar plane of the other ray, multiplied
    by the focal length. It is infinite if the rays intersect behind a camera, but only if their
    angle is larger than `sure` times the error, because the sign of the depth of nearly parallel
    rays is unreliable.
    """
    one, other = (poses[index] for index in rays.images)
    first = np.einsum("mij,mj->mi", one[:, :, :3], rays.first)
    second = np.einsum("mij,mj->mi", other[:, :, :3], rays.second)
    between, normal = other[:, :, 3] - one[:, :, 3], np.cross(first, second)
    # Products of the turned vectors between the cameras with the rays and with their normal.
    turns = axes.reshape(len(axes), 9).T
    along_first, along_second, volume = (
        np.einsum("mi,mj->mij", ray, between).reshape(-1, 9) @ turns
        for ray in (first, second, normal)
    )
    distance, angle = ((np.linalg.norm(v, axis=1)[:, None]) for v in (between, normal))
    nearest = np.square(distance) - np.maximum(np.square(along_first), np.square(along_second))
    sine = np.abs(volume) / np.sqrt(np.maximum(nearest, SHORTEST**2))
    focal, cosine = rays.focal[:, None], (first * second).sum(1)[:, None]
    error = focal * np.arcsin(np.minimum(np.where(distance > SHORTEST, sine, angle), 1.0))
    is_behind = (along_first <= cosine * along_second) | (cosine * along_first <= along_second)
    is_certain = focal * angle > np.maximum(MIN_TOLERANCE, sure * error)
    return np.where(is_behind & is_certain & (distance > SHORTEST), np.inf, error)


def agreements(matches: Matches, cameras: CameraMap, limit: float = 0.0) -> dict[Pair, float]:
    """Return the fraction of the matches of each pair with two cameras that agree with them:
    matches with an error of less than `limit` pixels, or within the tolerance."""
    known = {pair: some for pair, some in matches.items() if cameras.keys() >= {*pair}}
    if not known:
        return {}
    poses = np.stack([camera.pose for camera in cameras.values()]).astype(np.float64)
    rays = rays_of(known, {name: camera.lens for name, camera in cameras.items()})
    ends = np.cumsum([len(some) for some in known.values()])[:-1]
    errors = np.split(errors_of(rays, poses)[:, 0], ends)
    return {
        pair: float((error < max(limit, tolerance(cameras[pair[0]].lens))).mean())
        for pair, error in zip(known, errors, strict=True)
    }


def tolerance(lens: Lens) -> float:
    """Return the maximum error of a match in pixels, for the size of the image."""
    return max(TOLERANCE * max(lens.size), MIN_TOLERANCE)


def turned_share(matches: Matches, lenses: Mapping[str, Lens]) -> float:
    """Return the fraction of matches that a rotation of the camera alone explains, in pairs with
    much parallax.

    The result is close to 1 if the camera turned in place, and 0 if it did not move at all. Pairs
    with few matches or little motion, and images without a lens, are ignored. The focal lengths
    must be known: images of a plane look like images of a camera with a long focal length that
    turns.
    """
    pairs = [
        pair
        for pair, some in matches.items()
        if len(some) >= MIN_TURNED
        and lenses.keys() >= {*pair}
        and np.median(np.linalg.norm(some[:, 2:] - some[:, :2], axis=1))
        > MIN_MOTION * max(lenses[pair[0]].size)
    ]
    pairs = pairs[:: max(len(pairs) // MAX_PAIRS, 1)]
    if not pairs:
        return 0.0
    few = {pair: matches[pair][:: max(len(matches[pair]) // MAX_MATCHES, 1)] for pair in pairs}
    ends = np.cumsum([len(some) for some in few.values()])[:-1]
    first, second = (np.split(directions, ends) for directions in rays_of(few, lenses)[:2])
    shares = []
    for pair, one, other in zip(pairs, first, second, strict=True):
        limit = tolerance(lenses[pair[0]]) / lenses[pair[0]].fl_x
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
