"""`SharedLenses`: lenses that several views may share, and their refinement.

Views with the same size and the same intrinsics share a lens. For each lens, three variables are
refined: the logarithm of a common factor for both focal lengths, and additive changes of k1 and k2.
The variables are computed as P x, where x are the trained parameters and P is the matrix from
`lens_conditioning`. The principal point is not refined, because moving the principal point has
almost the same effect as rotating the camera.

`lens_jvp` computes the gradients of pixel directions with respect to the lens, to first order. A
pixel at a fixed position m has the direction (x, y, 1) for which focal distort(x, y) = m.
Therefore,

    d(x, y) = -J^-1 (distort(x, y) dlog focal + d distort(x, y)),   J = d distort / d(x, y)

In the last term, only the coefficients vary. For a fisheye lens, the same formula applies to the
angle.
"""

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property

import mlx.core as mx
import numpy as np

from nerfmac.common import SCENE_CENTER, Float32Array, Float64Array
from nerfmac.geometry import Cameras, Rays, distort_with_slopes

LENS_PARAMETERS = 3
_LEAST = 1e-6
DAMPING = 0.1
"""Damping factor from CamP, which limits the scale of parameters that barely change the image."""
GRID = (-0.4, 0.0, 0.4)
"""Positions of the sample points relative to the image center, as fractions of the image size."""
DEPTHS = (0.6, 0.8, 1.0, 1.5, 3.0)
"""Depths of the sample points, relative to the distance from the camera to the scene center."""
LEAST_DISTANCE = 0.1
"""Lower bound of the distance between a camera and the scene center, in scene units."""


class SharedLenses:
    """Distinct lenses of `cameras`, sorted by the index of the first view with the lens."""

    def __init__(self, cameras: Cameras) -> None:
        keys = _keys(cameras)
        self._index = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        self._first = [keys.index(key) for key in self._index]
        self._cameras = cameras

    def __len__(self) -> int:
        return len(self._index)

    @cached_property
    def _conditioning(self) -> mx.array:
        return mx.array(lens_conditioning(self._cameras)[self._first])

    @cached_property
    def of_views(self) -> mx.array:
        """Index of each view's lens, int32 (views,)."""
        return mx.array([self._index[key] for key in _keys(self._cameras)], mx.int32)

    def changes(self, parameters: mx.array) -> mx.array:
        """Return the changes of each lens (lenses, 3), namely the log focal factor and the changes
        of k1 and k2, for `parameters` (lenses, 3)."""
        return (self._conditioning * parameters[:, None, :]).sum(axis=2)

    def refined(self, cameras: Cameras, changes: mx.array) -> Cameras:
        """Return `cameras` with `changes` (lenses, 3) applied to all cameras that have one of these
        lenses. Cameras with other lenses, such as test cameras with a separate lens, do not
        change."""
        indices = [self._index.get(key, len(self)) for key in _keys(cameras)]
        padded = mx.concatenate([changes, mx.zeros((1, LENS_PARAMETERS))])[mx.array(indices)]
        focal = cameras.intrinsics[:, :2] * mx.exp(padded[:, :1])
        radial = cameras.distortion[:, :2] + padded[:, 1:]
        return replace(
            cameras,
            intrinsics=mx.concatenate([focal, cameras.intrinsics[:, 2:]], axis=1),
            distortion=mx.concatenate([radial, cameras.distortion[:, 2:]], axis=1),
            is_distorted=True,
        )

    def direction_jvp(
        self, refined: Cameras, changes: mx.array, rays: Rays, view: mx.array
    ) -> mx.array:
        """Return zeros (rays, 3) with the gradients of ray directions with respect to `changes`.
        The caller adds the zeros to ray directions. `refined` are the cameras after these changes,
        and `view` (rays,) contains the view of each ray."""
        axes = refined.poses[view, :, :3] * mx.array([1.0, -1.0, -1.0])  # y down, z forward
        direction = (axes * rays.direction[:, :, None]).sum(axis=1)  # in camera axes
        change = (changes - mx.stop_gradient(changes))[self.of_views][view]
        radial = mx.concatenate([change[:, 1:], mx.zeros((change.shape[0], 5))], axis=1)
        distortion = mx.stop_gradient(refined.distortion)[view] + radial
        moved = lens_jvp(direction, change[:, :1], distortion, self._cameras.is_fisheye)
        return (axes * moved[:, None, :]).sum(axis=2)


def _keys(cameras: Cameras) -> list[Hashable]:
    lenses = np.concatenate([np.array(cameras.intrinsics), np.array(cameras.distortion)], axis=1)
    return [(size, *map(float, lens)) for size, lens in zip(cameras.sizes, lenses, strict=True)]


def lens_jvp(
    direction: mx.array, stretch: mx.array, distortion: mx.array, is_fisheye: bool
) -> mx.array:
    """Return zeros (r, 3) with the gradients of directions with respect to `stretch` and
    `distortion`.

    `direction` (r, 3) is the unit direction to which the current lens maps each pixel, with x
    right, y down, and z forward. `stretch` (r, 1) is the logarithm of a factor for the focal
    length, with the value 0. `distortion` (r, 7) is as in `Cameras`. `is_fisheye` specifies whether
    any lens is a fisheye lens.
    """
    direction = mx.stop_gradient(direction)
    straight = _straight(direction, stretch, distortion)
    if not is_fisheye:
        return straight
    return mx.where(distortion[:, 6:] > 0, _fisheye(direction, stretch, distortion), straight)


def _straight(direction: mx.array, stretch: mx.array, distortion: mx.array) -> mx.array:
    ahead = mx.maximum(direction[:, 2:], _LEAST)
    x, y = direction[:, :1] / ahead, direction[:, 1:2] / ahead
    coefficients = list(mx.split(distortion[:, :6], 6, axis=-1))
    got_x, got_y, xx, xy, yy = distort_with_slopes(x, y, coefficients)
    off_x, off_y = (_change(mx.exp(stretch) * got) for got in (got_x, got_y))
    xx, xy, yy = map(mx.stop_gradient, (xx, xy, yy))
    determinant = xx * yy - xy * xy
    inverse = -ahead / mx.where(mx.abs(determinant) < _LEAST, _LEAST, determinant)
    moved_x, moved_y = inverse * (yy * off_x - xy * off_y), inverse * (xx * off_y - xy * off_x)
    moved = mx.concatenate([moved_x, moved_y, mx.zeros_like(moved_x)], axis=-1)
    return moved - direction * (direction * moved).sum(axis=-1, keepdims=True)


def _fisheye(direction: mx.array, stretch: mx.array, distortion: mx.array) -> mx.array:
    across = mx.sqrt(mx.square(direction[:, :2]).sum(axis=-1, keepdims=True))
    angle = mx.arctan2(across, direction[:, 2:])
    k1, k2, k3, k4 = mx.split(distortion[:, :4], 4, axis=-1)
    square = angle * angle
    radial = 1.0 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
    slope = k1 + square * (2.0 * k2 + square * (3.0 * k3 + square * 4.0 * k4))
    derivative = mx.stop_gradient(radial + 2.0 * square * slope)
    off = _change(mx.exp(stretch) * angle * radial)
    moved = -off / mx.where(mx.abs(derivative) < _LEAST, _LEAST, derivative)
    side = direction[:, :2] / mx.maximum(across, _LEAST)
    return mx.concatenate([moved * direction[:, 2:] * side, -moved * across], axis=-1)


def _change(values: mx.array) -> mx.array:
    """Return zeros that have the same gradient as `values`."""
    return values - mx.stop_gradient(values)


def pose_conditioning(cameras: Cameras) -> Float32Array:
    """Return the matrices P (n, 6, 6) that map parameters x to poses: (rotation vector, shift) = P
    x.

    With P, all elements of x move the image by similar amounts. Without P, rotating a camera would
    change its image in almost the same way as moving it sideways, and rolling the camera would have
    only a small effect. P is (S + 0.1 diag(S))^(-1/2), where S is the mean of J^T J over points,
    and J is d(direction) / d(pose) (CamP, Park et al. 2023, section 4). The length of a change of x
    is then approximately the image motion in radians. CamP uses one joint matrix for a pose and its
    lens. In nerfmac, many poses share a lens, so each lens has a separate matrix.
    """
    return _inverse_roots(_pose_motion(cameras))


def image_motion(cameras: Cameras, deltas: Float64Array) -> Float64Array:
    """Return how far pose changes move the images, in pixels (n,), as the root mean square over the
    points of `pose_conditioning`. `deltas` (n, 6) contains a rotation vector in radians and a shift
    for each camera."""
    squares = np.einsum("ni,nij,nj->n", deltas, _pose_motion(cameras), deltas)
    return np.asarray(np.sqrt(squares) * np.array(cameras.intrinsics, np.float64)[:, 0])


def _pose_motion(cameras: Cameras) -> Float64Array:
    """Return the matrices S (n, 6, 6) of `pose_conditioning`."""
    poses = np.array(cameras.poses, np.float64)
    sizes, lenses = np.array(cameras.sizes, float), np.array(cameras.intrinsics, np.float64)
    center_distance = np.linalg.norm(poses[:, :, 3] - SCENE_CENTER, axis=1)
    center_distance = np.maximum(center_distance, LEAST_DISTANCE)
    total = np.zeros((len(poses), 6, 6))
    points = [(across, down, depth) for across in GRID for down in GRID for depth in DEPTHS]
    for across, down, depth in points:
        x, y = np.array([[across], [-down]]) * sizes.T / lenses[:, :2].T
        jacobian = _pose_jacobian(poses, x, y, depth * center_distance)
        total += np.einsum("nki,nkj->nij", jacobian, jacobian) / len(points)
    return total


def _pose_jacobian(
    poses: Float64Array, x: Float64Array, y: Float64Array, depth: Float64Array
) -> Float64Array:
    """Return the Jacobians d(x, y) / d(pose), (n, 2, 6), at the points depth * (x, y, -1) in camera
    axes."""
    one, zero = np.ones_like(x), np.zeros_like(x)
    axes = poses[:, :, :3].swapaxes(1, 2)  # (n, axis, 3)
    point = np.einsum("nki,nk->ni", axes, np.stack([x, y, -one], axis=1) * depth[:, None])
    # A rotation w moves the point in camera coordinates by -w x point = point x w.
    rotated = np.cross(point[:, None], np.eye(3)).swapaxes(1, 2)
    motion = np.concatenate([axes @ rotated, -axes], axis=2)  # (n, 3, 6) in camera axes
    projection = np.stack([np.stack([one, zero, x], 1), np.stack([zero, one, y], 1)], axis=1)
    return projection @ motion / depth[:, None, None]


def lens_conditioning(cameras: Cameras) -> Float32Array:
    """Return the matrices P (n, 3, 3) that map parameters x to lenses: (log focal factor, k1, k2) =
    P x.

    Each matrix is computed from the mean over all points of `GRID` except the center, because lens
    changes do not move the center.
    """
    sizes, lenses = np.array(cameras.sizes, float), np.array(cameras.intrinsics, np.float64)
    total = np.zeros((len(sizes), 3, 3))
    points = [(across, down) for across in GRID for down in GRID if across or down]
    for across, down in points:
        x, y = np.array([[across], [down]]) * sizes.T / lenses[:, :2].T
        square = x * x + y * y
        # Radial motion of the point in radians, for a lens without distortion.
        jacobian = np.stack([np.ones_like(x), square, square**2])
        jacobian = np.sqrt(square) / (1.0 + square) * jacobian
        total += np.einsum("in,jn->nij", jacobian, jacobian) / len(points)
    return _inverse_roots(total)


def _inverse_roots(total: Float64Array) -> Float32Array:
    """Return the matrix (S + DAMPING diag(S))^(-1/2) for each matrix S in `total` (n, k, k)."""
    diagonal = np.einsum("nii->ni", total)[:, :, None] * np.eye(total.shape[1])
    values, vectors = np.linalg.eigh(total + DAMPING * diagonal)
    return np.einsum("nik,nk,njk->nij", vectors, values**-0.5, vectors).astype(np.float32)
