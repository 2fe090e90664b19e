"""Rotations and poses in the coordinates of a scene's files, and the direction to the sky."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError
from nerfmac.geometry.placement import Direction

Array = npt.NDArray[np.float64]

RIGID_WITHIN = 1e-2
"""Largest entry of |R^T R - 1| that is taken for rounding and removed; a larger one is refused."""

UP = (0.0, 0.0, 1.0)
"""The default direction to the sky, as in nerfstudio and Blender."""

LEAST_AGREEMENT = 0.1
"""Smallest length of the mean of the cameras' up axes; below it they have no common direction."""

UP_AXIS_WEIGHT = 0.01
"""Weight of the mean up axis in `estimated_up`. The right axes, usually held level, weigh 1."""


def rigid(matrix: Array, where: str, *, mirrored: bool = False) -> Array:
    """Return the pose `matrix` (3, 4) with its rotation made exactly orthonormal.

    A `mirrored` pose has the determinant -1. Raises InputError that names `where` for a matrix that
    is not rigid, or has the other determinant.
    """
    rotation = matrix[:, :3]
    error = float(np.abs(rotation.T @ rotation - np.eye(3)).max())
    if error > RIGID_WITHIN:
        raise InputError(
            f"{where} is not rigid: its columns are off by {error:.3g} from "
            "length one and right angles; expected a rotation and a position"
        )
    if bool(np.linalg.det(rotation) < 0) != mirrored:
        raise InputError(f"{where} mirrors space; expected a rotation, with the determinant 1")
    left, _, right = np.linalg.svd(rotation)
    return np.concatenate([left @ right, matrix[:, 3:]], axis=1)


def rotation_of(quaternion: Sequence[float], where: str) -> Array:
    """Return the rotation (3, 3) of a quaternion (w, x, y, z), which need not have length one.

    Raises InputError that names `where` unless the squared length is above 1e-12 and below 1e15.
    """
    w, x, y, z = quaternion
    length = w * w + x * x + y * y + z * z
    if not 1e-12 < length < LARGEST:
        raise InputError(f"{where} has the quaternion {list(quaternion)}; expected a rotation")
    s = 2.0 / length
    rotation = [
        [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
        [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
        [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
    ]
    return np.array(rotation)


def unit(vector: npt.ArrayLike) -> Direction:
    """Return the unit vector along `vector` (3,), which must not be zero."""
    x, y, z = (np.asarray(vector, np.float64) / np.linalg.norm(vector)).tolist()
    return x, y, z


def leveling(poses: Sequence[Array], up: Direction | None = None) -> Array:
    """Return the smallest rotation (3, 3) that turns `up` into z; by default the estimated up."""
    x, y, z = up or estimated_up(np.stack(poses))
    if z < -1 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    # Rodrigues' formula about the axis (x, y, z) x (0, 0, 1) = (y, -x, 0).
    turn = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])
    return np.eye(3) + turn + turn @ turn / (1.0 + z)


def estimated_up(poses: Array) -> Direction:
    """Estimate the direction to the sky from camera-to-file `poses` (n, 3, 4).

    It is perpendicular to the cameras' right axes, on the side of their up axes; z if they have no
    common up direction. The mean up axis alone would lean where all cameras look down from one
    side. So it only decides what the right axes leave open.
    """
    right, up = poses[:, :, 0], poses[:, :, 1].mean(axis=0)
    if np.linalg.norm(up) < LEAST_AGREEMENT:
        return UP
    # Minimize mean((right . u)^2) + UP_AXIS_WEIGHT |u - up|^2 over u.
    spread = np.einsum("ni,nj->ij", right, right) / len(right)
    return unit(np.linalg.solve(spread + UP_AXIS_WEIGHT * np.eye(3), UP_AXIS_WEIGHT * up))
