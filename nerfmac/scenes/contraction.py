"""Whether far space is contracted for encodings, and outside which inner cube.

Cells of an encoding should be as large as a pixel is where they lie. A pixel of a camera at the
distance d from the centre covers the same at the centre as all over the cube of side 2 d, about,
and grows beyond in proportion to the distance: the contraction of `Bounds` with an inner side 2 d.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.bounds import CENTRE, from_centre
from nerfmac.scenes.placement import OUTWARD
from nerfmac.scenes.scene import Scene

Array = npt.NDArray[np.floating]

WITHOUT_POINTS = 0.25
"""Inner side over extent, where cameras look outwards and no points say how far things are."""


def inner_side(
    asked: str | float, extent: float, poses: Array, points: Array | None
) -> float | None:
    """Return the side of the inner cube of a scene, in scene units; None: nothing is contracted.

    Args:
        asked: "on", "off", or the side.
        extent: side of the scene's cube.
        poses: camera-to-scene poses (n, 3, 4).
        points: sparse points (m, 3) in the scene, or None.
    """
    if asked == "off":
        return None
    inner = _by_cameras(extent, poses, points) if isinstance(asked, str) else asked
    return inner if inner < extent else None


def _by_cameras(extent: float, poses: Array, points: Array | None) -> float:
    offsets = poses[:, :, 3] - CENTRE
    distance = float(np.median(np.linalg.norm(offsets, axis=1)))
    if not look_outwards(poses):
        return 2.0 * distance
    if points is None:
        return max(2.0 * distance, WITHOUT_POINTS * extent)
    return 2.0 * max(distance, float(np.median(from_centre(points))))


def look_outwards(poses: Array) -> bool:
    """Return whether most cameras with the poses (n, 3, 4) look away from the scene's centre."""
    offsets, axes = poses[:, :, 3] - CENTRE, poses[:, :, 2]
    return bool((np.einsum("ij,ij->i", offsets, axes) < 0).mean() > OUTWARD)


def described_contraction(scene: Scene) -> str:
    """Return the line that says what of a scene's space is contracted."""
    asked = scene.options.contraction
    reason = "by --contraction"
    if asked == "on":
        poses = np.stack([camera.pose for camera in scene.cameras("train")])
        reason = f"cameras look {'outwards' if look_outwards(poses) else 'inwards'}"
    if scene.inner is None:
        if asked == "off":
            return "not contracted, by --contraction off"
        return f"not contracted: the cube of side {scene.extent:g} is all near"
    return (
        f"contracted from {scene.inner / 2:.2f} to {scene.extent / 2:g} units from the centre: "
        f"{reason}; --contraction off or SIDE changes it"
    )
