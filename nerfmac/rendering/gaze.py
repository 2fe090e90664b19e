"""What cameras on one side of a scene look at, by the depth that is rendered.

Where cameras stand all around something, their axes meet in it. On one side only they meet behind
what is seen, and somebody who turned about that point would lose the front from sight. There the
middle of the surfaces in the middle of their pictures is the better centre.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.cameras import Camera
from nerfmac.paths.rig import Rig
from nerfmac.rendering.renderer import Renderer

VIEWS = 12
"""Most cameras whose pictures are rendered."""

SIDE = 16
"""Pixels of their shorter side."""

MIDDLE = 0.5
"""Part of their width and height that counts."""

SEEN = 0.5
"""Opacity of a pixel that counts."""


def centre_seen(
    renderer: Renderer, cameras: Sequence[Camera], up: npt.ArrayLike
) -> npt.NDArray[np.float64] | None:
    """The centre (3,) of what the `cameras` look at; None where their axes tell it, or nothing is.

    Raises `InputError` as `paths.orbit`.
    """
    rig = Rig.of(cameras, up)
    if rig.goes_round or rig.distance <= 0.0:
        return None
    chosen = np.unique(np.linspace(0, len(cameras) - 1, VIEWS).astype(int))
    found = [point for index in chosen if (point := _seen(renderer, cameras[index])) is not None]
    return np.mean(found, axis=0) if found else None


def _seen(renderer: Renderer, camera: Camera) -> npt.NDArray[np.float64] | None:
    """The median (3,) of the points that the middle of the camera's picture shows."""
    lens = camera.lens
    scale = SIDE / min(lens.width, lens.height)
    lens = lens.scaled(round(lens.width * scale), round(lens.height * scale))
    picture = renderer.render(Camera(lens, camera.pose))
    row, column = np.mgrid[: lens.height, : lens.width] + 0.5
    counts = (picture.opacity > SEEN) & (abs(row / lens.height - 0.5) < 0.5 * MIDDLE)
    counts &= abs(column / lens.width - 0.5) < 0.5 * MIDDLE
    if not counts.any():
        return None
    # Distortion is left out: in the middle of a picture there is next to none.
    x, y = (column - lens.cx) / lens.fl_x, (lens.cy - row) / lens.fl_y
    direction = np.stack([x, y, -np.ones_like(x)], axis=-1)[counts] @ camera.pose[:, :3].T
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points = camera.pose[:, 3] + picture.depth[counts][:, None] * direction
    return np.median(points.astype(np.float64), axis=0)
