"""Comparison of the backgrounds of nearby cameras.

If the images of two cameras overlap, sparse points of both images that are close to each other
should be the same points (Heinly et al., Correcting for duplicate scene structure in sparse 3D
reconstruction, 2014).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nerfmac.app.capture.findings import SURROUNDINGS, Evidence, Finding
from nerfmac.common import Float64Array
from nerfmac.geometry import Camera, angle_between

GRID, CELL_POINTS = 8, 3
"""Rows and columns of the cells of an image in which sparse points are compared, and the minimum
number of points of each image in a cell."""
CONFLICT, MIN_CELLS = 0.5, 6
"""Fraction of cells with different content above which two images show different places, and
minimum number of compared cells."""
NEARBY, NEARBY_ANGLE = 0.4, 25.0
"""Maximum distance of two cameras relative to the median depth, and maximum angle in degrees, for
comparing their content."""
MIN_CONFLICTS = 3  # Minimum number of pairs of cameras with different backgrounds.


def different_backgrounds(evidence: Evidence) -> Iterable[Finding]:
    """Report nearby cameras with verified matches and different backgrounds."""
    conflicts, compared = [], 0
    cameras, positions = evidence.cameras, evidence.model.points
    depth = {name: _depth(cameras[name], positions[evidence.points[name]]) for name in cameras}
    for one, other in evidence.matches:
        if one not in cameras or other not in cameras:
            continue
        away = np.linalg.norm(cameras[one].pose[:, 3] - cameras[other].pose[:, 3])
        is_near = away < NEARBY * min(depth[one], depth[other])
        if is_near and angle_between(cameras[one], cameras[other]) <= NEARBY_ANGLE:
            conflicting, cells = _cells(evidence, one, other)
            compared += cells >= MIN_CELLS
            if cells >= MIN_CELLS and conflicting > CONFLICT * cells:
                conflicts.append((one, other))
    if len(conflicts) >= MIN_CONFLICTS:
        one, other = conflicts[0]
        yield Finding(
            "background",
            f"{len(conflicts)} of {compared} pairs of nearby cameras, such as {one} and {other}, "
            "show the same object in front of different backgrounds: two objects, or two sides of "
            "an object, that look alike have probably been confused",
            SURROUNDINGS,
        )


def _cells(evidence: Evidence, one: str, other: str) -> tuple[int, int]:
    """Return the number of cells with different content of two images, and of all cells that can be
    compared. A cell differs if it contains points of each image, but none that both observe."""
    points, positions = evidence.points, evidence.model.points
    common = np.intersect1d(points[one], points[other])
    alone = [np.setdiff1d(points[name], common) for name in (one, other)]
    cells = conflicting = 0
    for camera in (evidence.cameras[one], evidence.cameras[other]):
        shared = _counts(camera, positions[common])
        first, second = (_counts(camera, positions[rows]) for rows in alone)
        differs = (np.minimum(first, second) >= CELL_POINTS) & (shared == 0)
        conflicting += int(differs.sum())
        cells += int(differs.sum() + (shared > 0).sum())
    return conflicting, cells


def _project(camera: Camera, positions: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the pixel positions (n, 2), without lens distortion, and depths (n,) of points."""
    local = (positions - camera.pose[:, 3]) @ camera.pose[:, :3]
    depth, lens = -local[:, 2], camera.lens
    ahead = np.maximum(depth, 1e-9)
    across = local[:, 0] / ahead * lens.fl_x + lens.cx
    return np.column_stack([across, lens.cy - local[:, 1] / ahead * lens.fl_y]), depth


def _depth(camera: Camera, positions: Float64Array) -> float:
    return float(np.median(_project(camera, positions)[1])) if len(positions) else 0.0


def _counts(camera: Camera, positions: Float64Array) -> npt.NDArray[np.intp]:
    """Return the number of points (GRID, GRID) in each cell of an image."""
    pixels, depth = _project(camera, positions)
    cells = np.floor(pixels / camera.lens.size * GRID)
    inside = (depth > 0) & ((cells >= 0) & (cells < GRID)).all(axis=1)
    rows = (cells[inside, 1] * GRID + cells[inside, 0]).astype(np.intp)
    return np.bincount(rows, minlength=GRID**2).reshape(GRID, GRID)
