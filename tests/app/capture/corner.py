"""A corner of a room, three papered walls and a box, recorded by cameras that are known."""

import numpy as np

from nerfmac.geometry import Camera, Lens
from tests.variety.worlds import World, box, rectangle

LENS = Lens(256, 192, 210.0, 210.0, 128.0, 96.0)
BOX = np.array([[0.3, 0.4, 0.0], [0.9, 0.8, 0.5]])
"""Two opposite corners; the walls are x = 0, y = 0 and z = 0."""
SIDES = 4.0 * np.eye(3)  # half of the sides of a wall
WALLS = [
    rectangle(SIDES[one] + SIDES[other], SIDES[one], SIDES[other], one)
    for one, other in ((0, 1), (1, 2), (2, 0))
]
WORLD = World([*WALLS, *box(*BOX, 3, "XYZ")], 0.011)


def cameras(count):
    """Return `count` cameras on a rising arc that look into the corner, and turn as they go."""
    found = []
    for fraction in np.linspace(0, 1, count):
        angle = np.radians(12 + 66 * fraction)
        eye = [2.6 * np.cos(angle), 2.6 * np.sin(angle), 0.9 + 0.7 * fraction**2]
        target = [0.4, 0.3 + 0.2 * fraction, 0.3]
        found.append(Camera.look_at(eye, target, (0.05, 0.1, 1.0), LENS))
    return found


def seen(camera):
    """Return what `camera` sees, uint8 (h, w, 3)."""
    return WORLD.render(camera)[0]
