"""Camera paths for video: an orbit around what the training cameras look at.

The path is fitted to the training cameras. All that it needs besides is which way is up.

- its centre is the point closest to all their optical axes, in the least squares sense;
- its height and distance over the centre are their medians;
- it goes all the way round only if they do. If they leave a wide gap around the upright axis, they
  saw one side only, and the other side is unknown: the path then swings to and fro in their arc.

Cameras that look outwards, as in a room, have the centre behind them: the distance along their axes
is negative, and the same path looks outwards too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

Vectors = npt.NDArray[np.float64]

WIDEST_GAP = math.radians(100.0)
"""Widest gap between cameras, around the upright axis, that a full orbit crosses."""

STEEPEST = math.radians(85.0)
"""Largest elevation: at a pole there is no direction around the upright axis."""

PARALLEL = math.sin(math.radians(2.0)) ** 2
"""Mean squared sine between the axes and their mean below which they do not locate a centre."""

PARALLEL_DISTANCE = 4.0
"""Distance to the assumed target of parallel cameras, in units of the cameras' spread."""


def orbit(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
) -> list[Camera]:
    """Return `frames` cameras on a closed path fitted to the training `cameras`.

    `up` is the scene's upright direction `(3,)`, of any length. `size` is the width and height of
    a frame in pixels, by default the first camera's; both are rounded down to even, as video needs.
    The path's lens has no distortion. A full orbit goes counter-clockwise as seen from above; the
    first frame follows the last. Raises `InputError` for no cameras, cameras that are all at one
    place and look in one direction, and bad numbers.
    """
    checks.number("frames", frames, low=1, whole=True)
    frame = _frame(up)
    places, axes = _axes(cameras)
    centre = _centre(places, axes)
    distance = float(np.median(np.sum((centre - places) * axes, axis=1)))
    outward = (
        places - centre if distance > 0.0 else -axes
    )  # from the centre to the path, per camera
    if distance > 0.0:
        distance = float(np.median(np.linalg.norm(outward, axis=1)))
    azimuth, elevation = _angles(outward @ frame.T)
    level = float(np.clip(np.median(elevation), -STEEPEST, STEEPEST))
    lens = _lens([camera.lens for camera in cameras], size)
    path = []
    for angle in _sweep(azimuth, frames):
        along = math.cos(level) * math.cos(angle), math.cos(level) * math.sin(angle)
        direction = np.array([*along, math.sin(level)]) @ frame
        eye = centre + distance * direction
        path.append(Camera.look_at(eye, eye - direction, frame[2], lens))
    return path


def centre_of(cameras: Sequence[Camera]) -> Vectors:
    """Return the centre `(3,)` of the path of `orbit`; it is behind cameras that look outwards.

    Raises `InputError` as `orbit` does.
    """
    return _centre(*_axes(cameras))


def _axes(cameras: Sequence[Camera]) -> tuple[Vectors, Vectors]:
    """Return the cameras' places and the unit directions that they look in, both (n, 3)."""
    if not cameras:
        raise InputError("no cameras to fit a path to; expected at least one")
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    return poses[:, :, 3], -poses[:, :, 2]


def _frame(up: npt.ArrayLike) -> Vectors:
    """Return the rows of a right-handed frame `(3, 3)` whose last is `up` made a unit vector."""
    sky = np.asarray(up, np.float64)
    if sky.shape != (3,) or not np.isfinite(sky).all() or not np.linalg.norm(sky) > 0.0:
        raise InputError(f"up is {sky.tolist()}; expected three numbers that are not all zero")
    sky = sky / np.linalg.norm(sky)
    east = np.cross(np.eye(3)[np.argmin(np.abs(sky))], sky)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(sky, east), sky])


def _centre(places: Vectors, axes: Vectors) -> Vectors:
    """Return the point `(3,)` closest to the lines through `places` along unit `axes`, both (n, 3).

    For lines that are nearly parallel it is a point ahead, at a distance by the places' spread.
    """
    across = (
        np.eye(3) - axes[:, :, None] * axes[:, None, :]
    )  # projections perpendicular to the axes
    total = across.mean(axis=0)
    if np.linalg.eigvalsh(total)[0] >= PARALLEL:
        wanted = np.einsum("nij,nj->i", across, places) / len(places)
        return np.linalg.solve(total, wanted)
    middle = places.mean(axis=0)
    spread = float(np.sqrt(np.mean(np.sum((places - middle) ** 2, axis=1))))
    if spread < 1e-6:
        raise InputError("all cameras stand at one place and look one way; a path needs more")
    ahead = axes.mean(axis=0)
    return middle + PARALLEL_DISTANCE * spread * ahead / np.linalg.norm(ahead)


def _angles(vectors: Vectors) -> tuple[Vectors, Vectors]:
    """Return azimuth and elevation `(n,)` in radians of `vectors` `(n, 3)`, upright axis last.

    Vectors along the upright axis have no azimuth and are left out of the azimuths.
    """
    level = np.linalg.norm(vectors[:, :2], axis=1)
    elevation = np.arctan2(vectors[:, 2], level)
    azimuth = np.arctan2(vectors[:, 1], vectors[:, 0])
    aside = np.abs(elevation) < STEEPEST
    return azimuth[aside] if aside.any() else azimuth, elevation


def _sweep(azimuth: Vectors, frames: int) -> Vectors:
    """Return `frames` angles: once around, or to and fro in the arc that `azimuth` covers."""
    circle = 2.0 * math.pi
    time = np.arange(frames) / frames
    around = np.sort(azimuth % circle)
    gaps = np.diff(around, append=around[0] + circle)
    widest = int(np.argmax(gaps))
    if gaps[widest] <= WIDEST_GAP:
        return around[0] + circle * time
    start, arc = around[(widest + 1) % len(around)], circle - gaps[widest]
    return start + 0.5 * arc * (1.0 + np.sin(circle * time))


def _lens(lenses: Sequence[Lens], size: tuple[int, int] | None) -> Lens:
    """Return a lens without distortion that sees as large a solid angle as the median of `lenses`.

    So a wide frame shows more to the sides, and less above and below, than upright photographs.
    """
    width, height = size if size is not None else (lenses[0].width, lenses[0].height)
    checks.number("width", width, low=2, whole=True)
    checks.number("height", height, low=2, whole=True)
    width, height = width // 2 * 2, height // 2 * 2
    relative = [
        math.sqrt(lens.fl_x * lens.fl_y / (lens.width * lens.height)) for lens in lenses
    ]  # the focal length in units of a square picture's side
    focal = float(np.median(relative)) * math.sqrt(width * height)
    return Lens(width, height, focal, focal, width / 2, height / 2)
