"""Which cameras of a scene stand or look where they can hardly have been."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nerfmac.geometry.cameras import Camera
from nerfmac.inspection.findings import summed_up

FAR = 4.0
"""A camera is far away if it is so many times as far from the middle of all as the median."""
SAME = 1e-4
"""Cameras stand in one place if they are nearer than this part of the median distance, and look
the same way if their axes differ by less."""
TOGETHER = 0.8
"""Cameras look at one thing if for this part of them its direction is within `ASTRAY`."""
ASTRAY = 60.0
"""Degrees between a camera's axis and what the others look at, from which on it looks astray."""
ROLLED = 60.0
"""Degrees by which the sky is turned away from a picture's top, where that is unusual."""
STEEP = 0.2
"""Sine of the angle between an axis and the sky, below which a camera has no roll to speak of."""


def camera_findings(
    names: Sequence[str], cameras: Sequence[Camera], up: tuple[float, float, float]
) -> list[str]:
    """Which cameras are far from the others, look astray, roll, or are there twice, in lines.

    `up` points to the sky.
    """
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    eyes, sights, rights = poses[:, :, 3], -poses[:, :, 2], poses[:, :, 0]
    away = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    usual = max(float(np.median(away)), 1e-9)
    far = [
        f"{names[int(index)]} was taken {away[index] / usual:.0f} times as far away as the others"
        for index in np.flatnonzero(away > FAR * usual)
    ]
    angles = _angles_to_target(eyes, sights)
    together = (angles < ASTRAY).mean() >= TOGETHER
    astray = [
        f"{names[int(index)]} looks {angles[index]:.0f} degrees past what the others look at"
        for index in np.flatnonzero(together & (angles > ASTRAY))
    ]
    across, upwards = rights @ np.array(up), poses[:, :, 1] @ np.array(up)
    roll = np.degrees(np.abs(np.arctan2(across, upwards)))
    roll[np.hypot(across, upwards) < STEEP] = 0.0
    level = (roll < ROLLED / 2).mean() >= TOGETHER
    rolled = [
        f"{names[int(index)]} is rolled by {roll[index]:.0f} degrees, unlike the others"
        for index in np.flatnonzero(level & (roll > ROLLED))
    ]
    found = summed_up(far, "were taken from far away")
    found += summed_up(astray, "look past what the others look at")
    found += summed_up(rolled, "are rolled, unlike the others")
    return found + summed_up(
        _twice(names, eyes, sights, usual), "have the camera of an earlier one"
    )


def _angles_to_target(eyes: np.ndarray, sights: np.ndarray) -> np.ndarray:
    """Degrees between each camera's axis and the point that is nearest to all the axes."""
    across = np.eye(3) - sights[:, :, None] * sights[:, None, :]
    # A little pull to the cameras' middle decides where all axes are parallel.
    total = across.sum(0) + 1e-6 * np.eye(3)
    target = np.linalg.solve(total, np.einsum("nij,nj->i", across, eyes) + 1e-6 * eyes.mean(axis=0))
    towards = target - eyes
    towards /= np.maximum(np.linalg.norm(towards, axis=1, keepdims=True), 1e-12)
    return np.degrees(np.arccos(np.clip((towards * sights).sum(axis=1), -1, 1)))


def _twice(names: Sequence[str], eyes: np.ndarray, sights: np.ndarray, usual: float) -> list[str]:
    found = []
    for index in range(1, len(names)):
        near = np.linalg.norm(eyes[:index] - eyes[index], axis=1) < SAME * usual
        near &= np.linalg.norm(sights[:index] - sights[index], axis=1) < SAME
        if near.any():
            first = names[int(near.argmax())]
            found.append(f"{names[int(index)]} has the same camera as {first}")
    return found
