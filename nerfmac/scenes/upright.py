"""Which way is up in a capture: as its file says, or estimated from its cameras."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common.json_reader import Fields
from nerfmac.scenes.options import Direction

UP = (0.0, 0.0, 1.0)
"""The default, as in nerfstudio and Blender."""

LEAST_AGREEMENT = 0.1
"""If the mean of the cameras' up axes is shorter, they have no common direction."""

TILT = 0.01
"""Weight of the mean up axis against the right axes, which photographers hold level."""


def up_of(file: Fields, poses: Sequence[npt.NDArray[np.float64]] = ()) -> Direction:
    """The unit vector to the sky, in the file's coordinates, whose axes are the scene's too.

    This is instant-ngp's `up`, if the file has it. nerfstudio's `orientation_override` "none" means
    that the poses are upright: then z is up. Otherwise the direction is estimated from the
    camera-to-file `poses` (3, 4), and is z if there are none or they have no common up direction.
    nerfstudio's `applied_transform` only records what was done to the poses, and changes nothing.

    Raises InputError for an `up` that is not three numbers, or all zero.
    """
    if "up" in file:
        given = np.array(file.numbers("up", 3))
        if not given.any():
            raise file.wrong("up", "three numbers that are not all zero")
        return _unit(given)
    if not poses or file.values.get("orientation_override") == "none":
        return UP
    return estimated_up(np.stack(poses))


def levelling(
    poses: Sequence[npt.NDArray[np.float64]], up: Direction | None = None
) -> npt.NDArray[np.float64]:
    """The rotation (3, 3) that turns `up` into z, and no further; by default the estimated one."""
    x, y, z = up or estimated_up(np.stack(poses))
    if z < -1 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    # Rodrigues' formula about the axis (x, y, z) x (0, 0, 1) = (y, -x, 0).
    turn = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])
    return np.eye(3) + turn + turn @ turn / (1.0 + z)


def estimated_up(poses: npt.NDArray[np.float64]) -> Direction:
    """The direction perpendicular to the cameras' right axes, on the side of their up axes.

    `poses` are (n, 3, 4), camera to file; it is z if they have no common up direction.

    The mean up axis alone would lean where all cameras look down from one side. So it decides only
    what the right axes leave open; if these are parallel, it decides alone.
    """
    right, up = poses[:, :, 0], poses[:, :, 1].mean(axis=0)
    if np.linalg.norm(up) < LEAST_AGREEMENT:
        return UP
    # Minimise mean((right . u)^2) + TILT |u - up|^2 over u.
    spread = np.einsum("ni,nj->ij", right, right) / len(right)
    return _unit(np.linalg.solve(spread + TILT * np.eye(3), TILT * up))


def _unit(vector: npt.NDArray[np.float64]) -> Direction:
    x, y, z = (vector / np.linalg.norm(vector)).tolist()
    return x, y, z
