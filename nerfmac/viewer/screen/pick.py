"""The point of the scene that is seen at a place of a picture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.viewer.screen.screen import Frame

AROUND = 2
"""Pixels to each side whose depth is read too, so that a click close to a thin thing hits it."""


def seen_point(frame: Frame, x: float, y: float, otherwise: float) -> npt.NDArray[np.float64]:
    """The point (3,) seen at (x, y) in [0, 1] from the top left corner.

    Where nothing is seen, the point is at the distance `otherwise`. Distortion is ignored.
    """
    lens, pose = frame.camera.lens, frame.camera.pose.astype(np.float64)
    column, row = np.clip(x, 0.0, 1.0) * lens.width, np.clip(y, 0.0, 1.0) * lens.height
    across, down = (column - lens.cx) / lens.fl_x, (row - lens.cy) / lens.fl_y
    direction = pose[:, :3] @ np.array([across, -down, -1.0])
    left, top = (max(int(place) - AROUND, 0) for place in (column, row))
    right, bottom = int(column) + AROUND + 1, int(row) + AROUND + 1
    near = frame.drawn.depth[top:bottom, left:right]
    seen = near[near > 0.0]
    distance = float(np.median(seen)) if len(seen) else otherwise
    return pose[:, 3] + distance * direction / np.linalg.norm(direction)
