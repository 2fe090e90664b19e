"""A pinhole camera's rays in NumPy: the tests' own, against which the program's are held."""

import numpy as np

from nerfmac.geometry.cameras import Camera


def pixel_rays(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """Origin (3,) and directions (h, w, 3) through the pixels' centers, float64."""
    lens, pose = camera.lens, camera.pose.astype(np.float64)
    row, column = np.mgrid[: lens.height, : lens.width] + 0.5
    local = np.stack(
        [(column - lens.cx) / lens.fl_x, -(row - lens.cy) / lens.fl_y, -np.ones_like(row)], axis=-1
    )
    direction = local @ pose[:, :3].T
    return pose[:, 3], direction / np.linalg.norm(direction, axis=-1, keepdims=True)
