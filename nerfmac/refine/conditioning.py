"""Preconditioning of camera parameters, so that all parameters move the image by similar amounts.

Rotating a camera changes its image in almost the same way as moving it sideways, and rolling the
camera has only a small effect. The six pose variables are therefore computed as P x, where x are
the trained parameters and

    P = (S + 0.1 diag(S))^(-1/2),   S = mean of J^T J over points,   J = d(direction) / d(pose)

(CamP, Park et al. 2023, section 4). The length of a change of x is then approximately the image
motion in radians. CamP uses one joint matrix for a pose and its lens. In nerfmac, many poses share
a lens, so each lens has a separate matrix.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.common.constants import SCENE_CENTER
from nerfmac.geometry.cameras import Cameras

Array = npt.NDArray[np.float64]

DAMPING = 0.1
"""Damping factor from CamP. It limits the scale of parameters that barely change the image."""
GRID = (-0.4, 0.0, 0.4)
"""Image coordinates of the sample points relative to the image center, as fractions of the width
and height."""
DEPTHS = (0.6, 0.8, 1.0, 1.5, 3.0)
"""Depths of the sample points, as multiples of the distance between the camera and the scene
center."""
LEAST_DISTANCE = 0.1
"""Lower bound of the distance between a camera and the scene center, in scene units."""


def pose_conditioning(cameras: Cameras) -> npt.NDArray[np.float32]:
    """Return the matrices P (n, 6, 6) that map parameters x to poses: (rotation vector, shift) = P
    x."""
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
    return _inverse_roots(total)


def _pose_jacobian(poses: Array, x: Array, y: Array, depth: Array) -> Array:
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


def lens_conditioning(cameras: Cameras) -> npt.NDArray[np.float32]:
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


def _inverse_roots(total: Array) -> npt.NDArray[np.float32]:
    """Return the matrix (S + DAMPING diag(S))^(-1/2) for each matrix S in `total` (n, k, k)."""
    diagonal = np.einsum("nii->ni", total)[:, :, None] * np.eye(total.shape[1])
    values, vectors = np.linalg.eigh(total + DAMPING * diagonal)
    return np.einsum("nik,nk,njk->nij", vectors, values**-0.5, vectors).astype(np.float32)
