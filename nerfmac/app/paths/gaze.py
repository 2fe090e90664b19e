"""Computation of the point that cameras look at, from the subject or from rendered depth.

If cameras surround an object, their axes intersect in the object. If all cameras are on one side of
an object, their axes intersect behind the visible surfaces. On an orbit around this intersection,
the front of the object would sometimes be outside the image. In this case, the surfaces in the
middle of the images are a better center.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.rig import Rig
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.renderer import Renderer

VIEWS = 12
"""Maximum number of cameras for rendering images."""

SIDE = 16
"""Shorter side of the rendered images in pixels."""

MIDDLE = 0.5
"""Width and height of the central image region, relative to the image size. Only surface points in
this region are used."""

MIN_OPACITY = 0.5
"""The surface point of a pixel is used only if the pixel's opacity is at least this value."""


def look_at_point(
    renderer: Renderer,
    cameras: Sequence[Camera],
    up: npt.ArrayLike,
    subject: Sphere | None = None,
) -> npt.NDArray[np.float64] | None:
    """Return the center (3,) of the subject or, if it is unknown, of the surfaces that cameras look
    at.

    If the subject is unknown and the cameras are on all sides, face outward, or show no surface,
    the result is None.
    """
    if subject is not None:
        return np.array(subject.center)
    rig = Rig.of(cameras, up)
    if rig.goes_round or rig.distance <= 0.0:
        return None
    chosen = np.unique(np.linspace(0, len(cameras) - 1, VIEWS).astype(int))
    centers = [_visible_center(renderer, cameras[index]) for index in chosen]
    points = [center for center in centers if center is not None]
    return np.mean(points, axis=0) if points else None


def _visible_center(renderer: Renderer, camera: Camera) -> npt.NDArray[np.float64] | None:
    """Return the median (3,) of the surface points in the middle of an image, or None."""
    lens = camera.lens
    scale = SIDE / min(lens.width, lens.height)
    lens = lens.scaled(round(lens.width * scale), round(lens.height * scale))
    image = renderer.render(Camera(lens, camera.pose))
    row, column = np.mgrid[: lens.height, : lens.width] + 0.5
    counts = (image.opacity > MIN_OPACITY) & (abs(row / lens.height - 0.5) < 0.5 * MIDDLE)
    counts &= abs(column / lens.width - 0.5) < 0.5 * MIDDLE
    if not counts.any():
        return None
    # Distortion is ignored, because it is small in the middle of an image.
    x, y = (column - lens.cx) / lens.fl_x, (lens.cy - row) / lens.fl_y
    direction = np.stack([x, y, -np.ones_like(x)], axis=-1)[counts] @ camera.pose[:, :3].T
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points = camera.pose[:, 3] + image.depth[counts][:, None] * direction
    return np.median(points.astype(np.float64), axis=0)
