"""The near plane: how near to its cameras a scene begins, by its sparse points.

In front of a camera, where no other one looks, training may put anything: a fog that colours its
picture alone, and that hides the scene from everywhere else. So nothing is put there, as little as
NeRF's program puts anything in front of LLFF's near bound (Mildenhall et al. 2020). That is nine
tenths of the nearest point's depth; here it is less, as what is plain has no points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.cameras import Camera
from nerfmac.scenes.coverage import in_picture

PART = 0.75
"""Of the distance of the nearest points."""
OUTLIERS = 0.01
"""Of a picture's points, so many may be nearer: wrong ones are anywhere."""
FEWEST = 50
"""Points in a picture that say something of it."""
MOST = 2**15
"""Points; of more, evenly chosen ones are looked at."""


def near_plane(points: npt.NDArray[np.float64], cameras: Sequence[Camera]) -> float:
    """The distance from any of the `cameras` up to which nothing is, in scene units.

    `points` (n, 3) are in scene space; nothing hides a point. 0 if no picture has enough of them.
    """
    points = points[:: max(-(-len(points) // MOST), 1)]
    nearest = []
    for camera in cameras:
        pose = np.asarray(camera.pose, np.float64)
        _, is_seen = in_picture(points, pose, camera.lens.tangents)
        if is_seen.sum() >= FEWEST:
            away = np.linalg.norm(points[is_seen] - pose[:, 3], axis=1)
            nearest.append(float(np.quantile(away, OUTLIERS)))
    return PART * min(nearest, default=0.0)
