"""Which way is up in a capture: as its file says, or as its cameras were held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.json_reader import Fields

UP = (0.0, 0.0, 1.0)
"""Where nothing is known: nerfstudio's and Blender's."""

LEAST_AGREEMENT = 0.1
"""Length of the mean of the cameras' up axes below which they point every way."""

TILT = 0.01
"""How much the mean up axis counts against the right axes, which a photographer keeps level."""


def up_of(
    file: Fields, poses: Sequence[npt.NDArray[np.float64]] = ()
) -> tuple[float, float, float]:
    """The unit vector to the sky in the file's coordinates, which the scene's axes are parallel to.

    It is instant-ngp's `up`, if the file has one, else estimated from the camera-to-file `poses`
    (3, 4). `orientation_override` "none" (nerfstudio) says that the poses stand upright as they
    are: then z is up, as it is where there are no cameras or they point every way. nerfstudio's
    `applied_transform` is a note of what was done to the poses already, and changes nothing.

    Raises InputError for an `up` that is not three numbers, or all zero.
    """
    if "up" in file:
        given = np.array(file.numbers("up", 3))
        if not given.any():
            raise file.wrong("up", "three numbers that are not all zero")
        return _unit(given)
    if not poses or file.values.get("orientation_override") == "none":
        return UP
    return _estimated(np.stack(poses))


def _estimated(poses: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """The direction at right angles to the cameras' right axes and on the side of their up axes.

    The mean up axis alone leans over where cameras look down from one side. It decides only what
    the right axes leave open: all, if they are parallel.
    """
    right, up = poses[:, :, 0], poses[:, :, 1].mean(axis=0)
    if np.linalg.norm(up) < LEAST_AGREEMENT:
        return UP
    # The least of mean((right . u)^2) + TILT |u - up|^2.
    spread = np.einsum("ni,nj->ij", right, right) / len(right)
    return _unit(np.linalg.solve(spread + TILT * np.eye(3), TILT * up))


def _unit(vector: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = (vector / np.linalg.norm(vector)).tolist()
    return x, y, z
