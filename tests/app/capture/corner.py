"""A corner of a room, three papered walls and a box, recorded by cameras that are known."""

import numpy as np
from PIL import Image

from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

LENS = Lens(256, 192, 210.0, 210.0, 128.0, 96.0)
BOX = np.array([[0.3, 0.4, 0.0], [0.9, 0.8, 0.5]])
"""Two opposite corners; the walls are x = 0, y = 0 and z = 0."""


def papers():
    """Return six papers of noise at several scales, (512, 512, 3) in [0, 255], no two alike."""
    random = np.random.default_rng(9)
    sheets = []
    for _ in range(6):
        layers = [
            np.asarray(
                Image.fromarray(random.integers(0, 255, (size, size, 3), np.uint8)).resize(
                    (512, 512), Image.Resampling.BICUBIC
                ),
                float,
            )
            for size in (8, 32, 90)
        ]
        mean = np.mean(layers, axis=0)
        sheets.append(np.clip(128 + 2.0 * (mean - mean.mean()), 0, 255))
    return sheets


def cameras(count):
    """Return `count` cameras on a rising arc that look into the corner, and turn as they go."""
    found = []
    for fraction in np.linspace(0, 1, count):
        angle = np.radians(12 + 66 * fraction)
        eye = [2.6 * np.cos(angle), 2.6 * np.sin(angle), 0.9 + 0.7 * fraction**2]
        target = [0.4, 0.3 + 0.2 * fraction, 0.3]
        found.append(Camera.look_at(eye, target, (0.05, 0.1, 1.0), LENS))
    return found


def seen(camera, sheets):
    """Return what `camera` sees, uint8 (h, w, 3)."""
    rows, columns = np.mgrid[: LENS.height, : LENS.width] + 0.5
    local = [(columns - LENS.cx) / LENS.fl_x, (LENS.cy - rows) / LENS.fl_y, -np.ones_like(rows)]
    ray = np.stack(local, axis=-1) @ camera.pose[:, :3].T.astype(float)
    eye = camera.pose[:, 3].astype(float)
    nearest = np.full(rows.shape, np.inf)
    color = np.zeros((*rows.shape, 3))
    faces = [(axis, 0.0, None) for axis in range(3)] + [
        (axis, BOX[1, axis], BOX) for axis in range(3)
    ]
    for sheet, (axis, level, bounds) in zip(sheets, faces, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            away = (level - eye[axis]) / ray[..., axis]
        at = np.nan_to_num(eye + away[..., None] * ray)
        hit = (away > 0) & (away < nearest)
        if bounds is not None:
            others = [each for each in range(3) if each != axis]
            hit &= ((at >= bounds[0]) & (at <= bounds[1]))[..., others].all(axis=-1)
        u, v = (np.delete(at, axis, axis=-1)[hit] * 220).T
        color[hit] = sheet[v.astype(int) % 512, u.astype(int) % 512]
        nearest[hit] = away[hit]
    return color.astype(np.uint8)
