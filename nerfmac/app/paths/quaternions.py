"""Operations on unit quaternions, stacked (n, 4) as (w, x, y, z). q and -q are the same
rotation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def arc(start: Array, end: Array, fraction: Array) -> Array:
    """Interpolate spherically from quaternions `start` (n, 4) at fraction 0 to `end` at fraction
    1."""
    across, along = np.linalg.norm(end - start, axis=-1), np.linalg.norm(end + start, axis=-1)
    angle = 2.0 * np.arctan2(across, along)[..., None]
    # The weight of `start` is sin((1 - fraction) * angle) / sin(angle), and the weight of `end` is
    # sin(fraction * angle) / sin(angle). If the quaternions are nearly equal, the limits 1 -
    # fraction and fraction are used.
    tiny = angle < 1e-6
    whole = np.where(tiny, 1.0, np.sin(angle))
    left = np.where(tiny, 1.0 - fraction, np.sin((1.0 - fraction) * angle) / whole)
    right = np.where(tiny, fraction, np.sin(fraction * angle) / whole)
    return left * start + right * end


def product(one: Array, other: Array) -> Array:
    """Return the products (n, 4) of quaternions. A product rotates by `other` first and then by
    `one`."""
    real, axis, other_real, other_axis = one[:, :1], one[:, 1:], other[:, :1], other[:, 1:]
    vector = real * other_axis + other_real * axis + np.cross(axis, other_axis)
    return np.c_[real * other_real - np.sum(axis * other_axis, axis=1, keepdims=True), vector]


def inverse(quaternion: Array) -> Array:
    """Return the quaternions (n, 4) of the inverse rotations."""
    return quaternion * np.array([1.0, -1.0, -1.0, -1.0])


def exponential(vector: Array) -> Array:
    """Return the quaternions (n, 4) of rotation vectors (n, 3). The direction of a rotation vector
    is the axis, and its length is the angle in radians."""
    half = 0.5 * np.linalg.norm(vector, axis=1, keepdims=True)
    return np.c_[np.cos(half), 0.5 * vector * np.sinc(half / np.pi)]


def logarithm(quaternion: Array) -> Array:
    """Return the rotation vectors (n, 3) of quaternions, with angles of at most pi (see
    `exponential`)."""
    shortest = np.where(quaternion[:, :1] < 0.0, -quaternion, quaternion)
    sine = np.linalg.norm(shortest[:, 1:], axis=1, keepdims=True)
    half = np.arctan2(sine, shortest[:, :1])
    return 2.0 * shortest[:, 1:] / np.sinc(half / np.pi)


def quaternions(rotation: Array) -> Array:
    """Return the quaternions (n, 4), with arbitrary signs, of the rotations nearest to matrices (n,
    3, 3).

    Horn: Closed-form solution of absolute orientation using unit quaternions (1987).
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation.transpose(1, 2, 0)
    table = [
        [xx + yy + zz, zy - yz, xz - zx, yx - xy],
        [zy - yz, xx - yy - zz, xy + yx, zx + xz],
        [xz - zx, xy + yx, yy - xx - zz, yz + zy],
        [yx - xy, zx + xz, yz + zy, zz - xx - yy],
    ]
    return np.linalg.eigh(np.array(table).transpose(2, 0, 1))[1][:, :, -1]


def matrices(quaternion: Array) -> Array:
    """Return the rotation matrices (n, 3, 3) of unit quaternions (n, 4): I + 2 w [v] + 2 [v]^2."""
    real, (x, y, z) = quaternion[:, :1, None], quaternion[:, 1:].T
    none = np.zeros_like(x)
    cross = np.array([[none, -z, y], [z, none, -x], [-y, x, none]]).transpose(2, 0, 1)
    return np.eye(3) + 2.0 * (real * cross + cross @ cross)
