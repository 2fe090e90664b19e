"""Worlds of textured rectangles, with exact images, depths, and visible points.

A world stands for a subject that users capture: an object on a table, a room, flat ground, or a
wall. Its images are rendered by intersecting each viewing ray with each rectangle.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image

from nerfmac.geometry.cameras import Camera

SHEETS, SHEET = 12, 512
"""Number of textures, and their size in texels."""
EPSILON = 1e-6


class Face(NamedTuple):
    """Rectangle with the corners `center` ± `right` ± `up`, covered by a texture."""

    center: np.ndarray
    right: np.ndarray
    up: np.ndarray
    sheet: int


class Hits(NamedTuple):
    """Nearest intersections of rays: distance (n,), infinite if there is none, the number of the
    face (n,), and the position on it (n, 2) in scene units."""

    distance: np.ndarray
    face: np.ndarray
    at: np.ndarray


class World(NamedTuple):
    """Rectangles, and the size of a texel in scene units."""

    faces: Sequence[Face]
    texel: float

    def trace(self, origin: np.ndarray, direction: np.ndarray) -> Hits:
        """Intersect rays from one origin (3,) in the directions (n, 3)."""
        distance = np.full(len(direction), np.inf)
        number, at = np.zeros(len(direction), int), np.zeros((len(direction), 2))
        for index, face in enumerate(self.faces):
            width, height = np.linalg.norm(face.right), np.linalg.norm(face.up)
            axes = np.stack([face.right / width, face.up / height], axis=1)
            normal = np.cross(axes[:, 0], axes[:, 1])
            with np.errstate(divide="ignore", invalid="ignore"):
                away = ((face.center - origin) @ normal) / (direction @ normal)
            candidates = np.flatnonzero((away > EPSILON) & (away < distance))
            away = away[candidates]
            local = (origin + away[:, None] * direction[candidates] - face.center) @ axes
            inside = (np.abs(local) <= [width, height]).all(axis=1)
            rows = candidates[inside]
            distance[rows], number[rows], at[rows] = away[inside], index, local[inside]
        return Hits(distance, number, at)

    def render(self, camera: Camera, samples: int = 2) -> tuple[np.ndarray, np.ndarray]:
        """Return the image, uint8 (h, w, 3), and the depth along the optical axis (h, w), infinite
        where no face is visible, averaged over `samples` x `samples` rays of a pixel."""
        lens = camera.lens
        width, height = samples * lens.width, samples * lens.height
        color = np.zeros((height * width, 3), np.float32)
        local = directions(camera, samples)
        hits = self.trace(camera.pose[:, 3].astype(float), local @ camera.pose[:, :3].T)
        seen = np.isfinite(hits.distance)
        kinds = np.array([face.sheet for face in self.faces])[hits.face[seen]]
        # Each face shows another part of its texture.
        texel = hits.at[seen] / self.texel + 37.0 * hits.face[seen, None] + SHEET / 2
        color[seen] = _textures()[
            kinds, texel[:, 1].astype(int) % SHEET, texel[:, 0].astype(int) % SHEET
        ]
        image = color.reshape(lens.height, samples, lens.width, samples, 3).mean(axis=(1, 3))
        middle = slice(samples // 2, None, samples)
        depth = (hits.distance * -local[:, 2]).reshape(height, width)[middle, middle]
        return (image + 0.5).astype(np.uint8), depth

    def visible(self, camera: Camera, points: np.ndarray) -> np.ndarray:
        """Return whether the camera sees each of the points (n, 3), apart from the image border."""
        eye = camera.pose[:, 3].astype(float)
        toward = points - eye
        return self.trace(eye, toward).distance > 1 - 1e-4

    def points(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Return random points (count, 3) on the faces, and the unit normals (count, 3)."""
        area = np.array([np.linalg.norm(np.cross(face.right, face.up)) for face in self.faces])
        chosen = random.choice(len(area), count, p=area / area.sum())
        across, along = random.uniform(-1, 1, (2, count, 1))
        center, right, up = (
            np.array([getattr(face, name) for face in self.faces])[chosen]
            for name in ("center", "right", "up")
        )
        return center + across * right + along * up


def directions(camera: Camera, samples: int = 1) -> np.ndarray:
    """Return the viewing directions (h w, 3) of the centers of all pixels, in camera coordinates
    with depth 1."""
    lens = camera.lens
    rows, columns = np.mgrid[: samples * lens.height, : samples * lens.width] / samples
    x = (columns + 0.5 / samples - lens.cx) / lens.fl_x
    y = (lens.cy - rows - 0.5 / samples) / lens.fl_y
    return np.stack([x, y, -np.ones_like(x)], axis=-1).reshape(-1, 3)


@cache
def _textures() -> np.ndarray:
    """Textures (n, h, w, 3) in [0, 255] with detail at several scales, no two alike."""
    random = np.random.default_rng(9)
    sheets = []
    for _ in range(SHEETS):
        layers = [
            Image.fromarray(random.integers(0, 255, (size, size, 3), np.uint8)).resize(
                (SHEET, SHEET), Image.Resampling.BICUBIC
            )
            for size in (8, 32, 100, 200)
        ]
        mean = np.mean([np.asarray(layer, np.float32) for layer in layers], axis=0)
        sheets.append(np.clip(128 + 2.2 * (mean - mean.mean()), 0, 255))
    return np.stack(sheets).astype(np.float32)


def rectangle(
    center: Sequence[float], right: Sequence[float], up: Sequence[float], sheet: int
) -> Face:
    """Return a face. `right` and `up` are half of its sides."""
    return Face(
        np.array(center, float), np.array(right, float), np.array(up, float), sheet % SHEETS
    )


def box(
    low: Sequence[float], high: Sequence[float], sheet: int, sides: str = "xXyYzZ"
) -> list[Face]:
    """Return the sides of a box. A side is a letter of its axis, in upper case at the high end."""
    low, high = np.array(low, float), np.array(high, float)
    half, faces = np.diag((high - low) / 2), []
    for number, side in enumerate(sides):
        axis = "xyz".index(side.lower())
        center = (low + high) / 2
        center[axis] = high[axis] if side.isupper() else low[axis]
        right, up = (half[other] for other in range(3) if other != axis)
        faces.append(rectangle(center, right, up, sheet + number))
    return faces


def ground(size: float, relief: float, count: int = 40) -> list[Face]:
    """Return flat ground with the side length 2 `size`, and boxes of heights up to `relief`."""
    faces = [rectangle((0, 0, 0), (size, 0, 0), (0, size, 0), 0)]
    random = np.random.default_rng(4)
    for number in range(count if relief else 0):
        x, y = random.uniform(-size, size, 2) * 0.9
        half = random.uniform(0.02, 0.06, 2) * size
        low, high = (
            (x - half[0], y - half[1], 0),
            (x + half[0], y + half[1], relief * random.uniform(0.3, 1)),
        )
        faces += box(low, high, number + 1, "xXyYZ")
    return faces


def room(width: float, depth: float, height: float) -> list[Face]:
    """Return the walls, floor, and ceiling of a room, with a few pieces of furniture."""
    faces = box((-width / 2, -depth / 2, 0), (width / 2, depth / 2, height), 0)
    faces += box((-width / 2, -depth / 2, 0), (-width / 3, -depth / 4, height / 3), 5, "XYZ")
    faces += box((width / 4, depth / 3, 0), (width / 2, depth / 2, 0.7 * height), 7, "xyZ")
    faces += box(
        (-width / 8, depth / 4, 0.2 * height), (width / 8, depth / 2, 0.45 * height), 2, "xXyzZ"
    )
    return faces


def table(object_size: float, size: float = 4.0) -> list[Face]:
    """Return an object of several boxes in the middle of a table with the side length 2 `size`."""
    s = object_size
    faces = [rectangle((0, 0, 0), (size, 0, 0), (0, size, 0), 3)]
    faces += box((-s, -0.7 * s, 0), (0.6 * s, 0.5 * s, 0.8 * s), 4, "xXyYZ")
    faces += box((-0.5 * s, -0.2 * s, 0.8 * s), (0.9 * s, 0.6 * s, 1.4 * s), 8, "xXyYzZ")
    faces += box((0.65 * s, -1.1 * s, 0), (1.1 * s, -0.5 * s, 0.5 * s), 1, "xXyYZ")
    return faces
