"""Readings of camera poses and intrinsics that scene files may have meant, judged by matches.

A reading of the poses is a product: matrices or inverse matrices, camera axes, axes of the
positions, and the order of the images. A reading of the intrinsics is a product of the focal
length, the distortion k1, and the principal point.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from nerfmac.app.capture.two_views import Matches, Rays, errors_of, rays_of
from nerfmac.common import Float64Array, counted
from nerfmac.geometry import Lens

SAMPLED_PAIRS, SAMPLED_MATCHES = 80, 40
"""Approximate numbers of pairs, and of matches of each pair, that are compared with cameras."""
MAX_MATCHES = 120  # Number of these matches with which all readings of the poses are compared.
AXES = np.array(
    [
        np.eye(3)[list(order)] * np.array(signs)[:, None]
        for order in permutations(range(3))
        for signs in product((1, -1), repeat=3)
    ]
)
"""All 48 matrices (3, 3) that permute and negate axes. The first one is the identity."""
OPENCV = np.diag([1.0, -1.0, -1.0])
SURE = 3.0
"""Rays intersect behind a camera only if their angle is larger than this multiple of the error."""
ROUNDS = 12  # Iterations of fitting intrinsics.
STEP = 1e-4  # Step of the numeric derivatives.


def sampled(matches: Matches) -> Matches:
    """Return a sample of the matches."""
    pairs = sorted(matches)[:: max(len(matches) // SAMPLED_PAIRS, 1)]
    return {pair: matches[pair][:: max(len(matches[pair]) // SAMPLED_MATCHES, 1)] for pair in pairs}


class Reading(NamedTuple):
    """Reading of the poses: its description, and its median error in pixels."""

    text: str
    error: float


def all_readings(rays: Rays, poses: Float64Array, names: Sequence[str]) -> list[Reading]:
    """Return all readings of camera-to-file `poses` (n, 3, 4) in file coordinates, simple ones
    first. `names` are the names of the images in order."""
    every = -(-len(rays.focal) // MAX_MATCHES)
    one, other = rays.images
    images = one[::every], other[::every]
    rays = Rays(rays.first[::every], rays.second[::every], images, rays.focal[::every])
    found = []
    for order, told in _orders(names):
        for rotations, eyes, form in _forms(poses[order]):
            for turn in AXES:
                turned = np.concatenate([rotations @ turn, eyes[..., None]], axis=2)
                errors = np.median(errors_of(rays, turned, AXES, SURE), axis=0)
                for axes, error in zip(AXES, errors.tolist(), strict=True):
                    parts = [form, _camera_axes(turn), _position_axes(axes), told]
                    found.append((len([*filter(None, parts)]), parts, error))
    found.sort(key=lambda entry: entry[0])
    return [Reading(" and ".join(filter(None, parts)), error) for _, parts, error in found]


def _forms(poses: Float64Array) -> Iterator[tuple[Float64Array, Float64Array, str]]:
    """Yield the rotations (n, 3, 3) and positions (n, 3) that matrices may mean."""
    rotations, eyes = poses[:, :, :3], poses[:, :, 3]
    inverse = rotations.transpose(0, 2, 1)
    yield rotations, eyes, ""
    yield inverse, -(inverse @ eyes[..., None])[..., 0], "the matrices map world to camera"
    yield inverse, eyes, "the rotations are transposed"
    moved = -(rotations @ eyes[..., None])[..., 0]
    yield rotations, moved, "the positions are translations of world-to-camera matrices"


def _orders(names: Sequence[str]) -> Iterator[tuple[list[int], str]]:
    """Yield orders of the poses, as the index of the pose of each image."""
    order = list(range(len(names)))
    yield order, ""
    yield order[1:] + order[:1], "each image has the pose of the next image"
    yield order[-1:] + order[:-1], "each image has the pose of the previous image"
    yield order[::-1], "the poses are in the reverse order of the images"
    # Programs that sort names as text place 10.jpg before 9.jpg.
    as_text = sorted(order, key=lambda index: names[index])
    as_numbers = sorted(order, key=lambda index: counted(names[index]))
    if as_text != as_numbers:
        sorts = (as_text, as_numbers, "text"), (as_numbers, as_text, "numbers")
        for sources, images, kind in sorts:
            poses = [source for _, source in sorted(zip(images, sources, strict=True))]
            yield poses, f"the poses are in the order of the names sorted as {kind}"


def _camera_axes(turn: Float64Array) -> str:
    if np.array_equal(turn, np.eye(3)):
        return ""
    if np.array_equal(turn, OPENCV):
        return "the camera axes are those of OpenCV (x right, y down, z forward)"
    if np.linalg.det(turn) < 0:
        return f"the world is mirrored, with the camera axes {_letters(turn.T)}"
    return f"right, up, and backward are the camera axes {_letters(turn.T)}"


def _position_axes(axes: Float64Array) -> str:
    return "" if np.array_equal(axes, np.eye(3)) else f"the positions are ({_letters(axes)})"


def _letters(rows: Float64Array) -> str:
    letters = ["xyz"[int(np.argmax(np.abs(row)))] for row in rows]
    signs = ["-" if row.sum() < 0 else "" for row in rows]
    return ", ".join(sign + letter for sign, letter in zip(signs, letters, strict=True))


class Intrinsics(NamedTuple):
    """Changes of the intrinsics: factor of the focal length, change of k1, and shift of the
    principal point relative to the image size; and the resulting median error in pixels."""

    focal: float = 1.0
    k1: float = 0.0
    x: float = 0.0
    y: float = 0.0
    error: float = 0.0

    def applied(self, lens: Lens) -> Lens:
        """Return changed intrinsics."""
        lens = replace(lens, fl_x=self.focal * lens.fl_x, fl_y=self.focal * lens.fl_y)
        lens = replace(lens, k1=lens.k1 + self.k1)
        return replace(lens, cx=lens.cx + self.x * lens.width, cy=lens.cy + self.y * lens.height)


def fitted_intrinsics(
    matches: Matches, lenses: Mapping[str, Lens], poses: Float64Array, free: Sequence[int]
) -> Intrinsics:
    """Return the intrinsics with the smallest errors, found by Gauss-Newton with a robust weight.
    `free` contains the indices of the changes that may differ from 0."""
    axes, few = np.eye(4)[list(free)], sampled(matches)

    def changes(vector: Float64Array) -> Intrinsics:
        focal, k1, x, y = (vector @ axes).tolist()
        return Intrinsics(float(np.exp(focal)), k1, x, y)

    def errors(vector: Float64Array) -> Float64Array:
        rays = rays_of(few, {n: changes(vector).applied(lens) for n, lens in lenses.items()})
        return np.minimum(errors_of(rays, poses, sure=SURE)[:, 0], 1e3)

    vector = best = np.zeros(len(axes))
    smallest = size = errors(vector)
    for _ in range(ROUNDS):
        slopes = [(errors(vector + STEP * axis) - size) / STEP for axis in np.eye(len(vector))]
        slope, weight = np.stack(slopes, axis=1), 1 / np.maximum(size, np.median(size))
        normal = slope.T @ (weight[:, None] * slope) + 1e-6 * np.eye(len(vector))
        step = np.linalg.solve(normal, slope.T @ (weight * size))
        vector = vector - step * min(1.0, 0.2 / max(float(np.abs(step).max()), 1e-9))
        size = errors(vector)
        if np.median(size) < np.median(smallest):
            best, smallest = vector, size
    return changes(best)._replace(error=float(np.median(smallest)))
