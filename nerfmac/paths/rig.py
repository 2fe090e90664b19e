"""`Rig`: the training cameras as a whole, what they look at and from where, as paths need it.

All that it needs besides the cameras is which way is up.

- its centre is the point closest to all their optical axes, in the least squares sense;
- its height and distance over the centre are their medians;
- it is open on the side where they leave a wide gap around the upright axis. Then they saw one side
  only, and the other is unknown: paths stay in the cameras' arc.

Cameras that look outwards, as in a room, have the centre behind them: the distance along their axes
is negative, and the same paths look outwards too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

Vectors = npt.NDArray[np.float64]

WIDEST_GAP = math.radians(100.0)
"""Widest gap between cameras, around the upright axis, that a path crosses."""

STEEPEST = math.radians(85.0)
"""Largest elevation: at a pole there is no direction around the upright axis."""

PARALLEL = math.sin(math.radians(2.0)) ** 2
"""Mean squared sine between the axes and their mean below which they do not locate a centre."""

PARALLEL_DISTANCE = 4.0
"""Distance to the assumed target of parallel cameras, in units of the cameras' spread."""

CIRCLE = 2.0 * math.pi


@dataclass(frozen=True, eq=False)
class Rig:
    """Cameras around a centre. Angles are in radians, lengths in scene units."""

    centre: Vectors
    """(3,); it is behind cameras that look outwards."""
    frame: Vectors
    """(3, 3): rows of a right-handed frame, of which the last is up."""
    distance: float
    """From the centre to the cameras, the median; negative if they look outwards."""
    azimuth: Vectors
    """(n,) around the upright axis; cameras overhead have none and are left out."""
    elevation: Vectors
    """(n,) over the level."""
    lens: Lens
    """Without distortion, of even size."""

    @classmethod
    def of(
        cls,
        cameras: Sequence[Camera],
        up: npt.ArrayLike,
        size: tuple[int, int] | None = None,
        centre: npt.ArrayLike | None = None,
    ) -> Rig:
        """The rig of `cameras`; arguments and errors are those of `orbit`.

        With a `centre` of its own the rig still has the angles that the cameras stand at around the
        point where their axes meet: about a centre before it they would be wider, and the cameras
        at the ends would show what hardly a photograph did.
        """
        frame = _frame(up)
        places, axes = _axes(cameras)
        meeting = _centre(places, axes)
        distance = float(np.median(np.sum((meeting - places) * axes, axis=1)))
        outward = places - meeting if distance > 0.0 else -axes  # from the centre, per camera
        azimuth, elevation = _angles(outward @ frame.T)
        centre = meeting if centre is None else checks.finite("centre", centre, (3,))
        if distance > 0.0:
            distance = float(np.median(np.linalg.norm(places - centre, axis=1)))
        lens = _lens([camera.lens for camera in cameras], size)
        return cls(centre, frame, distance, azimuth, elevation, lens)

    @property
    def level(self) -> float:
        """The cameras' median elevation."""
        return float(np.clip(np.median(self.elevation), -STEEPEST, STEEPEST))

    @cached_property
    def arc(self) -> tuple[float, float]:
        """The azimuth at which the cameras begin and how far they go on; 2 pi: all the way round.

        An arc leads to the left as seen from the centre.
        """
        around = np.sort(self.azimuth % CIRCLE)
        gaps = np.diff(around, append=around[0] + CIRCLE)
        widest = int(np.argmax(gaps))
        if gaps[widest] <= WIDEST_GAP:
            return float(around[0]), CIRCLE
        return float(around[(widest + 1) % len(around)]), float(CIRCLE - gaps[widest])

    @property
    def goes_round(self) -> bool:
        """Whether cameras stand on all sides."""
        return self.arc[1] == CIRCLE

    def heights(self, most: float) -> tuple[float, float]:
        """The lowest and the highest elevation for paths: nearly all cameras' range.

        It reaches at most `most` from its middle to either end.
        """
        low, high = np.clip(np.percentile(self.elevation, [10, 90]), -STEEPEST, STEEPEST)
        middle, half = 0.5 * (low + high), min(0.5 * (high - low), most)
        return float(middle - half), float(middle + half)

    def camera(self, azimuth: float, elevation: float, away: float = 1.0) -> Camera:
        """The camera there, `away` times the rig's distance from the centre, that looks at it."""
        along = math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth)
        direction = np.array([*along, math.sin(elevation)]) @ self.frame
        eye = self.centre + away * self.distance * direction
        return Camera.look_at(eye, eye - direction, self.frame[2], self.lens)

    def zoomed(self, factor: float) -> Rig:
        """The rig with a lens of `factor` times the focal length."""
        lens = self.lens
        lens = replace(lens, fl_x=factor * lens.fl_x, fl_y=factor * lens.fl_y)
        return replace(self, lens=lens)


def centre_of(cameras: Sequence[Camera]) -> Vectors:
    """Return the centre (3,) of the `cameras`' rig; it is behind cameras that look outwards.

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
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]  # projections across each axis
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


def _lens(lenses: Sequence[Lens], size: tuple[int, int] | None) -> Lens:
    """Return a lens without distortion whose shorter side sees what the photographs' one sees.

    So a wide frame shows more to the sides than square photographs, and cuts nothing off above and
    below. Beside upright photographs it would cut most of what stands in them: there its shorter
    side sees the geometric mean of both of theirs. So it does in an upright or square frame beside
    wide photographs. The angle is the median of the `lenses`.
    """
    width, height = size if size is not None else (lenses[0].width, lenses[0].height)
    checks.number("width", width, low=2, whole=True)
    checks.number("height", height, low=2, whole=True)
    width, height = width // 2 * 2, height // 2 * 2
    focal = float(np.median([_relative_focal(lens, width, height) for lens in lenses]))
    focal *= min(width, height)
    return Lens(width, height, focal, focal, width / 2, height / 2)


def _relative_focal(lens: Lens, width: int, height: int) -> float:
    """The focal length for frames of `width` x `height`, in units of their shorter side."""
    is_upright, is_wide = lens.height > lens.width, lens.width > lens.height
    is_turned = (is_upright and width >= height) or (is_wide and width <= height)
    side = math.sqrt(lens.width * lens.height) if is_turned else min(lens.width, lens.height)
    return math.sqrt(lens.fl_x * lens.fl_y) / side
