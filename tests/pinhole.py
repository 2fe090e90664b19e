"""Rays of a pinhole camera, and their distances to a sphere, in NumPy and apart from nerfmac."""

from collections.abc import Sequence

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


def sphere_hits(
    origin: np.ndarray, direction: np.ndarray, center: Sequence[float], radius: float
) -> np.ndarray:
    """Distances (h, w) along rays with unit directions (h, w, 3) to a sphere, or infinity."""
    offset = origin - np.array(center)
    along = direction @ offset
    inside = along**2 - offset @ offset + radius**2
    distance = -along - np.sqrt(np.maximum(inside, 0.0))
    return np.where((inside > 0.0) & (distance > 0.0), distance, np.inf)
