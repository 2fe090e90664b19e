"""Stray cameras and sparse points: the few that structure from motion put where nothing is.

They must not decide how large a scene is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_STRAYS = 0.15
"""Largest part of all cameras or points that may be strays; more are what the scene is."""
FAR = 4.0
"""Cameras this many times as far from the median place as the median camera are strays."""
SMOOTH = 0.1
"""Median |log(r / r')| from which on distances r, r' of points in like directions are unrelated.
On surfaces it is 0.003 to 0.035 (garden, table top, painted wall), of points strewn in space 0.2 to
1."""
FEWEST = 5
"""Points that are needed to tell a surface from strays."""
MOST_COMPARED = 1000
"""Of more points, evenly chosen ones are compared."""


def stray_cameras(eyes: Array) -> Flags:
    """Which of the camera places (n, 3) are strays, bool (n,)."""
    away = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    strays = away > FAR * np.median(away)
    is_few = np.median(away) > 0 and strays.mean() <= MOST_STRAYS
    return strays & is_few


def stray_points(points: Array, least: float, most: float) -> Flags:
    """Which of the points (n, 3), relative to the middle of the scene, are strays, bool (n,).

    They are what lies outside a cube of side `least`, or of twice, four times ... that below
    `most`, if it is a small part of all points and is no surface: on a surface, points in like
    directions are about as far away. Larger cubes come first, so that points strewn behind a wall
    go without it.
    """
    strays = np.zeros(len(points), np.bool_)
    away = np.abs(points).max(axis=1, initial=0.0)
    doublings = max(int(np.ceil(np.log2(most / least))), 0)
    for side in reversed([least * 2.0**doubling for doubling in range(doublings)]):
        outside = away > side / 2
        left = outside & ~strays
        if outside.sum() > MOST_STRAYS * len(points):
            break
        if left.sum() >= FEWEST:
            if _is_surface(points[left]):
                break
            strays = outside
    return strays


def _is_surface(points: Array) -> bool:
    points = points[:: -(-len(points) // MOST_COMPARED)]
    distance = np.linalg.norm(points, axis=1)
    directions = points / distance[:, None]
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -2.0)
    beside = distance[cosines.argmax(axis=1)]
    return bool(np.median(np.abs(np.log(distance / beside))) < SMOOTH)
