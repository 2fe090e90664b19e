"""Camera paths of plausible captures. z is up, and lengths are in meters."""

from collections.abc import Sequence

import numpy as np

from nerfmac.geometry import Camera, Lens

UP = (0.03, 0.02, 1.0)
"""Up direction of the cameras, because no one holds a camera exactly level."""


def toward(
    eyes: np.ndarray, targets: np.ndarray, lens: Lens, up: Sequence[float] = UP
) -> list[Camera]:
    """Return cameras at the positions (n, 3) that look at the targets (n, 3)."""
    targets = np.broadcast_to(targets, eyes.shape)
    return [
        Camera.look_at(eye, target, up, lens) for eye, target in zip(eyes, targets, strict=True)
    ]


def ring(
    count: int, radius: float, height: float, lens: Lens, *, arc: float = 360.0, target: float = 0.3
) -> list[Camera]:
    """Return cameras on a circle that look at its axis."""
    angle = np.radians(arc) * np.arange(count) / count
    wave = 0.06 * radius * np.sin(3 * angle)
    eyes = np.stack([radius * np.cos(angle), radius * np.sin(angle), height + wave], axis=1)
    return toward(eyes, np.array([0.0, 0.0, target]), lens)


def turn(
    count: int, radius: float, height: float, lens: Lens, *, arc: float = 360.0, start: float = 0.0
) -> list[Camera]:
    """Return cameras that look outward from a circle, whose radius is an arm's length, or 0 for a
    camera that turns in place."""
    angle = np.radians(start) + np.radians(arc) * np.arange(count) / count
    outward = np.stack([np.cos(angle), np.sin(angle), 0.1 * np.sin(2 * angle) - 0.08], axis=1)
    eyes = radius * outward * [1, 1, 0] + [0, 0, height]
    return toward(eyes, eyes + outward, lens)


def grid(
    rows: int,
    columns: int,
    step: float,
    height: float,
    lens: Lens,
    *,
    tilt: float = 0.0,
    wobble: float = 0.0,
) -> list[Camera]:
    """Return cameras on a survey flight: rows at a height that look down, or `tilt` degrees
    forward. `wobble` is the standard deviation of the height relative to the height."""
    random = np.random.default_rng(8)
    eyes = []
    for row in range(rows):
        order = range(columns) if row % 2 == 0 else reversed(range(columns))
        eyes += [
            ((column - (columns - 1) / 2) * step, (row - (rows - 1) / 2) * step, height)
            for column in order
        ]
    eyes = np.array(eyes)
    eyes[:, 2] += wobble * height * random.normal(size=len(eyes))
    eyes[:, :2] += 0.03 * step * random.normal(size=(len(eyes), 2))
    angle = np.radians(tilt + 2.0 * random.normal(size=len(eyes)))
    aside = np.radians(2.0 * random.normal(size=len(eyes)))
    forward = np.stack([np.sin(aside), np.sin(angle), -np.cos(angle)], axis=1)
    return toward(eyes, eyes + forward, lens, up=(0.02, 1.0, 0.01))


def walk(
    count: int, length: float, distance: float, height: float, lens: Lens, *, turned: float = 0.0
) -> list[Camera]:
    """Return cameras on a line parallel to a wall or an object at a distance. `turned` is the angle
    in degrees by which the cameras turn against the walk, so that they keep an object in view."""
    along = np.linspace(-length / 2, length / 2, count)
    sway = 0.015 * length * np.sin(np.linspace(0, 9, count))
    eyes = np.stack([along, -distance + sway, height + sway], axis=1)
    angle = np.radians(np.linspace(turned / 2, -turned / 2, count))
    forward = np.stack([np.sin(angle), np.cos(angle), np.full(count, -0.03)], axis=1)
    return toward(eyes, eyes + forward, lens)


def corridor(count: int, length: float, height: float, lens: Lens) -> list[Camera]:
    """Return cameras that walk forward through a corridor along y."""
    along = np.linspace(-length / 2, length / 2, count)
    sway = 0.05 * np.sin(np.linspace(0, 12, count))
    eyes = np.stack([sway, along, height + 0.5 * sway], axis=1)
    return toward(eyes, eyes + [0.0, 1.0, -0.05], lens)
