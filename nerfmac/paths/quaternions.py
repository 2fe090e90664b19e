"""Unit quaternions for turning, stacked (n, 4) as (w, x, y, z); q and -q are the same turn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def arc(start: Array, end: Array, share: Array) -> Array:
    """Between unit quaternions along the great arc; it may be longer than a quarter circle."""
    apart, along = (np.linalg.norm(each, axis=-1) for each in (end - start, end + start))
    angle = 2.0 * np.arctan2(apart, along)[..., None]
    # sin(share angle) / sin(angle), and its limit for equal quaternions.
    tiny = angle < 1e-6
    whole = np.where(tiny, 1.0, np.sin(angle))
    left = np.where(tiny, 1.0 - share, np.sin((1.0 - share) * angle) / whole)
    right = np.where(tiny, share, np.sin(share * angle) / whole)
    return left * start + right * end


def product(one: Array, other: Array) -> Array:
    """The quaternions (n, 4) that turn by `other` first, then by `one`."""
    real, axis, other_real, other_axis = one[:, :1], one[:, 1:], other[:, :1], other[:, 1:]
    vector = real * other_axis + other_real * axis + np.cross(axis, other_axis)
    return np.c_[real * other_real - np.sum(axis * other_axis, axis=1, keepdims=True), vector]


def inverse(turn: Array) -> Array:
    """The quaternions (n, 4) that turn back."""
    return turn * np.array([1.0, -1.0, -1.0, -1.0])


def exponential(vector: Array) -> Array:
    """The quaternions (n, 4) of turns about `vector` (n, 3) by its length in radians."""
    half = 0.5 * np.linalg.norm(vector, axis=1, keepdims=True)
    return np.c_[np.cos(half), 0.5 * vector * np.sinc(half / np.pi)]


def logarithm(turn: Array) -> Array:
    """Axis times angle (n, 3) of quaternions, by the shortest way: at most pi radians."""
    turn = np.where(turn[:, :1] < 0.0, -turn, turn)
    sine = np.linalg.norm(turn[:, 1:], axis=1, keepdims=True)
    half = np.arctan2(sine, turn[:, :1])
    return 2.0 * turn[:, 1:] / np.sinc(half / np.pi)


def quaternions(turn: Array) -> Array:
    """Quaternions (n, 4), of either sign, of the rotations nearest to the matrices (n, 3, 3).

    Horn: Closed-form solution of absolute orientation using unit quaternions (1987).
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = turn.transpose(1, 2, 0)
    table = [
        [xx + yy + zz, zy - yz, xz - zx, yx - xy],
        [zy - yz, xx - yy - zz, xy + yx, zx + xz],
        [xz - zx, xy + yx, yy - xx - zz, yz + zy],
        [yx - xy, zx + xz, yz + zy, zz - xx - yy],
    ]
    return np.linalg.eigh(np.array(table).transpose(2, 0, 1))[1][:, :, -1]


def matrices(turn: Array) -> Array:
    """Rotations (n, 3, 3) of unit quaternions (n, 4): I + 2 w [v] + 2 [v]^2."""
    real, (x, y, z) = turn[:, :1, None], turn[:, 1:].T
    none = np.zeros_like(x)
    cross = np.array([[none, -z, y], [z, none, -x], [-y, x, none]]).transpose(2, 0, 1)
    return np.eye(3) + 2.0 * (real * cross + cross @ cross)
