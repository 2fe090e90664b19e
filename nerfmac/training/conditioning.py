"""Conditioning of cameras: numbers of which each moves what they see by about as much.

A camera that turns and one that moves sideways show almost the same, and rolling shows little. So
the six numbers of a pose are P x, for x to be learned, with

    P = (S + 0.1 diag(S))^(-1/2),   S = mean of J^T J

where J are the derivatives of the directions in which a camera sees points, by its pose (CamP, Park
et al. 2023, section 4). Lengths of x are then angles, in radians. A lens, which many poses share,
has a matrix of its own, where theirs conditions a pose and its lens together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.bounds import CENTRE
from nerfmac.geometry.cameras import Cameras

DAMPING = 0.1
"""CamP's: a number that shows less than by the root of that is not made larger any more."""
GRID = (-0.4, 0.0, 0.4)
"""Where in a picture the points are seen, in widths and heights from its middle."""
DEPTHS = (0.6, 0.8, 1.0, 1.5, 3.0)
"""How far away they are, in distances of the camera from the scene's centre."""
LEAST_DISTANCE = 0.1
"""Of a camera in the scene's centre, in scene units."""


def conditioning(cameras: Cameras) -> npt.NDArray[np.float32]:
    """The matrices P of the cameras (n, 6, 6); a pose's numbers are as in `Corrections`."""
    poses = np.array(cameras.poses, np.float64)
    sizes, lenses = np.array(cameras.sizes, float), np.array(cameras.intrinsics, np.float64)
    away = np.maximum(np.linalg.norm(poses[:, :, 3] - CENTRE, axis=1), LEAST_DISTANCE)
    total = np.zeros((len(poses), 6, 6))
    places = [(across, down, depth) for across in GRID for down in GRID for depth in DEPTHS]
    for across, down, depth in places:
        x, y = np.array([[across], [-down]]) * sizes.T / lenses[:, :2].T
        moved = _moved(poses, x, y, depth * away)
        total += np.einsum("nki,nkj->nij", moved, moved) / len(places)
    return _inverse_roots(total)


def _moved(
    poses: npt.NDArray[np.float64],
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    depth: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """How x and y of the points (x, y, -1) depth move (n, 2, 6) with a camera's six numbers."""
    one, nothing = np.ones_like(x), np.zeros_like(x)
    axes = poses[:, :, :3].swapaxes(1, 2)  # (n, axis, 3)
    point = np.einsum("nki,nk->ni", axes, np.stack([x, y, -one], axis=1) * depth[:, None])
    # To turn by w moves the point, as the camera sees it, by -w x point = point x w.
    turned = np.cross(point[:, None], np.eye(3)).swapaxes(1, 2)
    own = np.concatenate([axes @ turned, -axes], axis=2)  # (n, 3, 6) along the camera's axes
    seen = np.stack([np.stack([one, nothing, x], 1), np.stack([nothing, one, y], 1)], axis=1)
    return seen @ own / depth[:, None, None]


def lens_conditioning(cameras: Cameras) -> npt.NDArray[np.float32]:
    """The matrices P of the cameras' lenses (n, 3, 3), of the logarithm of a factor on the focal
    length, k1 and k2; as above, but for the same points of each picture's plane.

    A longer focal length and a lens that bends show almost the same at the middle of a picture.
    """
    sizes, lenses = np.array(cameras.sizes, float), np.array(cameras.intrinsics, np.float64)
    total = np.zeros((len(sizes), 3, 3))
    places = [(across, down) for across in GRID for down in GRID if across or down]
    for across, down in places:
        x, y = np.array([[across], [down]]) * sizes.T / lenses[:, :2].T
        square = x * x + y * y
        # Of a lens as it would be without distortion: how far a point moves, outwards, in radians.
        moved = np.sqrt(square) / (1.0 + square) * np.stack([np.ones_like(x), square, square**2])
        total += np.einsum("in,jn->nij", moved, moved) / len(places)
    return _inverse_roots(total)


def _inverse_roots(total: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """(S + 0.1 diag(S))^(-1/2) of each S (n, k, k)."""
    diagonal = np.einsum("nii->ni", total)[:, :, None] * np.eye(total.shape[1])
    values, vectors = np.linalg.eigh(total + DAMPING * diagonal)
    return np.einsum("nik,nk,njk->nij", vectors, values**-0.5, vectors).astype(np.float32)
