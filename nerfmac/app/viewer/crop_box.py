"""The initial crop box of the viewer, around the subject of the scene."""

import numpy as np
import numpy.typing as npt

from nerfmac.app.run import Run
from nerfmac.common import InputError
from nerfmac.geometry import Bounds, scene_ground_plane

Corners = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

MARGIN = 1.5  # Ratio of the side length of the box to the diameter of the subject.
BELOW = 0.03
"""Distance from the ground plane to the face of the box below it, as a fraction of the box."""

MAX_POINTS = 5000  # Approximate maximum number of sparse points that the ground plane is fitted to.


def initial_crop_box(run: Run) -> Corners | None:
    """Return the lowest and highest corners, each (3,), of the initial crop box in scene
    coordinates, or None for the whole scene cube. If the subject stands on a ground plane, the box
    begins a little below this plane."""
    record = run.scene
    if record.subject is None:
        return None
    bounds, (low, high) = Bounds(record.extent), record.subject.box(MARGIN)
    side = float(high[0] - low[0])
    height = _height_above_ground(run)
    if height is not None and 0.0 < height < side:
        axis = int(np.argmax(np.abs(record.up)))  # The face of the box that is nearest to level.
        center, sign = record.subject.center[axis], np.sign(record.up[axis])
        (low if sign > 0 else high)[axis] = center - sign * (height + BELOW * side)
    return np.clip(low, *bounds.corners), np.clip(high, *bounds.corners)


def _height_above_ground(run: Run) -> float | None:
    """Return the height of the center of the subject above the ground plane in scene units, or None
    without a ground plane."""
    try:
        points = run.images().points
    except InputError:  # The files of the scene are gone.
        return None
    if points is None or run.scene.subject is None:
        return None
    eyes = np.stack([camera.pose[:, 3] for camera in run.cameras])
    points = points[:: max(len(points) // MAX_POINTS, 1)]
    plane = scene_ground_plane(points, run.scene.bounds, eyes, run.scene.up)
    if plane is None:
        return None
    slope = float(plane.normal @ np.asarray(run.scene.up))
    return (float(plane.normal @ np.asarray(run.scene.subject.center)) - plane.offset) / slope
