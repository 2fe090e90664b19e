"""What pictures show, patch by patch: a few points on a far wall may be half of every picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

PATCHES = 8
"""Of a picture, along each of its sides."""
MOST_VIEWS, MOST_POINTS = 64, 20000
"""Of more, evenly chosen ones are looked at."""


def patch_medians(
    values: Array, points: Array, poses: Sequence[Array], tangents: Sequence[tuple[float, float]]
) -> Array:
    """The median of the `values` (n,) of the `points` (n, 3) in each patch of each picture: (m,).

    `poses` (3, 4) are camera-to-file with OpenGL's axes, and `tangents` half of a picture's width
    and height over its focal lengths. Patches without points are left out. Nothing hides a point.
    """
    step = max(-(-len(points) // MOST_POINTS), 1)
    values, points = values[::step], points[::step]
    found: list[float] = []
    for index in range(0, len(poses), -(-len(poses) // MOST_VIEWS)):
        place, is_seen = in_picture(points, poses[index], tangents[index])
        across, down = ((place[is_seen] + 1) * (PATCHES / 2)).astype(int).T
        patch, seen = PATCHES * down + across, values[is_seen]
        found += [float(np.median(seen[patch == each])) for each in np.unique(patch)]
    return np.array(found)


def in_picture(
    points: Array, pose: Array, tangents: tuple[float, float]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Where a picture without distortion shows the `points` (n, 3), and which of them it does.

    Places are (n, 2), of which the picture has those from -1 to 1, y upwards; `pose` (3, 4) and
    `tangents` are as above. Nothing hides a point.
    """
    x, y, z = ((points - pose[:, 3]) @ pose[:, :3]).T
    ahead = np.maximum(-z, 1e-12)
    place = np.stack([x, y], axis=1) / (ahead[:, None] * tangents)
    return place, (z < 0) & (np.abs(place) < 1).all(axis=1)
