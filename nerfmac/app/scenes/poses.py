"""Rotations and poses in the coordinates of scene files, and the up direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError
from nerfmac.geometry.placement import Direction

Array = npt.NDArray[np.float64]

RIGID_WITHIN = 1e-2  # Maximum entry of |R^T R - I| that counts as a rounding error of a rotation R.
UP = (0.0, 0.0, 1.0)  # Default up direction, as in nerfstudio and Blender.
MIN_AGREEMENT = 0.1  # Minimum length of the mean up axis of cameras with a common up direction.
UP_AXIS_WEIGHT = 0.01
"""Weight of the mean up axis in `estimated_up`, relative to the weight 1 of the right axes."""


def rigid(matrix: Array, where: str, *, mirrored: bool = False) -> Array:
    """Return the pose `matrix` (3, 4) with an exactly orthonormal rotation.

    If `mirrored` is True, the determinant of the rotation must be -1 instead of 1. `where` is the
    position in the file, for the error message.
    """
    rotation = matrix[:, :3]
    error = float(np.abs(rotation.T @ rotation - np.eye(3)).max())
    if error > RIGID_WITHIN:
        raise InputError(
            f"{where} is not rigid: the error of its columns from unit length and right angles is "
            f"{error:.3g}; expected a rotation and a position"
        )
    if bool(np.linalg.det(rotation) < 0) != mirrored:
        raise InputError(f"{where} is a reflection; expected a rotation with determinant 1")
    left, _, right = np.linalg.svd(rotation)
    return np.concatenate([left @ right, matrix[:, 3:]], axis=1)


def rotation_of(quaternion: Sequence[float], where: str) -> Array:
    """Convert a quaternion (w, x, y, z), not necessarily of unit length, to a rotation matrix (3,
    3)."""
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


def unit(vector: npt.ArrayLike) -> Direction:
    """Return the unit vector in the direction of `vector` (3,). The vector must not be zero."""
    x, y, z = (np.asarray(vector, np.float64) / np.linalg.norm(vector)).tolist()
    return x, y, z


def leveling(poses: Sequence[Array], up: Direction | None = None) -> Array:
    """Return the smallest rotation (3, 3) that maps `up` (3,) to z. By default, the up direction is
    estimated from camera-to-world `poses` (3, 4)."""
    x, y, z = up or estimated_up(np.stack(poses))
    if z < -1 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    # Rodrigues' rotation formula, for the axis (x, y, z) x (0, 0, 1) = (y, -x, 0).
    turn = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])
    return np.eye(3) + turn + turn @ turn / (1.0 + z)


def estimated_up(poses: Array) -> Direction:
    """Estimate the up direction from camera-to-world `poses` (n, 3, 4) in file coordinates.

    The up direction is perpendicular to the right axes of the cameras and has the same sign as
    their up axes. If the cameras have no common up direction, the result is z. The mean up axis
    would be tilted if all cameras looked down from one side. Therefore, the mean up axis has a low
    weight and affects the result only if the right axes do not determine the direction.
    """
    right, up = poses[:, :, 0], poses[:, :, 1].mean(axis=0)
    if np.linalg.norm(up) < MIN_AGREEMENT:
        return UP
    # Minimize mean((right . u)^2) + UP_AXIS_WEIGHT |u - up|^2 over u.
    spread = np.einsum("ni,nj->ij", right, right) / len(right)
    return unit(np.linalg.solve(spread + UP_AXIS_WEIGHT * np.eye(3), UP_AXIS_WEIGHT * up))
