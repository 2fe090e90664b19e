"""Rendered photos with known cameras: walks around a can, a turning camera, and a corridor.

Each input is a room with textured faces, with or without a can in it. If two sides of the can have
the same print, or if a corridor repeats, structure from motion can confuse places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.geometry import Camera, Lens

Floats = npt.NDArray[np.float64]

LENS = Lens(480, 360, 400.0, 400.0, 240.0, 180.0)
UP = (0.0, 0.0, 1.0)
TEXELS = 512  # Width and height of a texture.
DENSITY = 110.0  # Texels per scene unit.
RADIUS, HEIGHT = 0.4, 1.2  # Size of the can.


def texture(seed: int, contrast: float = 1.0) -> Floats:
    """Return noise at several scales, (TEXELS, TEXELS, 3) in [0, 255]."""
    random = np.random.default_rng(seed)
    layers = [
        np.asarray(
            Image.fromarray(random.integers(0, 255, (size, size, 3), np.uint8)).resize(
                (TEXELS, TEXELS), Image.Resampling.BICUBIC
            ),
            float,
        )
        for size in (8, 32, 96)
    ]
    mean = np.mean(layers, axis=0)
    return np.asarray(np.clip(150 + contrast * 2.0 * (mean - mean.mean()), 0, 255))


def tiles() -> Floats:
    """Return a floor of equal tiles, (TEXELS, TEXELS, 3) in [0, 255]."""
    rows, columns = np.mgrid[:TEXELS, :TEXELS] % 64
    gray = np.where((rows < 3) | (columns < 3), 110.0, 205.0)
    return np.repeat(gray[..., None], 3, axis=2)


@dataclass(frozen=True)
class Room:
    """Room from `low` to `high` with a texture for each face (-x, +x, -y, +y, floor, ceiling), and
    with a can at the origin if `can` is a texture."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]
    faces: tuple[Floats, ...]
    can: Floats | None = None
    prints: int = 1  # Number of times that the texture is repeated around the can.

    def photo(self, camera: Camera) -> npt.NDArray[np.uint8]:
        """Return the photo (h, w, 3) that a camera takes."""
        return self.view(camera)[0]

    def view(self, camera: Camera) -> tuple[npt.NDArray[np.uint8], Floats]:
        """Return the photo (h, w, 3) that a camera takes, and the depth (h, w) along its axis."""
        lens, pose = camera.lens, camera.pose.astype(np.float64)
        rows, columns = np.mgrid[: lens.height, : lens.width] + 0.5
        local = [(columns - lens.cx) / lens.fl_x, (lens.cy - rows) / lens.fl_y, -np.ones_like(rows)]
        ray, eye = np.stack(local, axis=-1) @ pose[:, :3].T, pose[:, 3]
        color, nearest = np.zeros((*rows.shape, 3)), np.full(rows.shape, np.inf)
        for index, face in enumerate(self.faces):
            axis = index // 2
            level = (self.low if index % 2 == 0 else self.high)[axis]
            with np.errstate(divide="ignore", invalid="ignore"):
                away = (level - eye[axis]) / ray[..., axis]
            hit = (away > 1e-6) & (away < nearest)
            at = np.delete(eye + away[hit][:, None] * ray[hit], axis, axis=-1) * DENSITY
            u, v = (at.astype(np.intp) % TEXELS).T
            color[hit], nearest[hit] = face[v, u], away[hit]
        if self.can is not None:
            self._draw_can(color, nearest, ray, eye)
        return color.astype(np.uint8), nearest

    def _draw_can(self, color: Floats, nearest: Floats, ray: Floats, eye: Floats) -> None:
        assert self.can is not None
        a = (ray[..., :2] ** 2).sum(-1)
        b = (ray[..., :2] * eye[:2]).sum(-1)
        root = b * b - a * ((eye[:2] ** 2).sum() - RADIUS**2)
        with np.errstate(invalid="ignore"):
            away = (-b - np.sqrt(root)) / a
        at = eye + np.nan_to_num(away)[..., None] * ray
        hit = (root > 0) & (away > 0) & (away < nearest) & (at[..., 2] < HEIGHT) & (at[..., 2] > 0)
        angle = np.arctan2(at[hit][:, 1], at[hit][:, 0]) / (2 * np.pi) * self.prints % 1.0
        u = (angle * TEXELS).astype(np.intp) % TEXELS
        v = (at[hit][:, 2] * DENSITY * 2).astype(np.intp) % TEXELS
        color[hit], nearest[hit] = self.can[v, u], away[hit]


def ring(count: int, radius: float = 2.4) -> list[Camera]:
    """Return cameras on a slightly uneven ring around the can."""
    random = np.random.default_rng(1)
    found = []
    for angle in 2 * np.pi * (np.arange(count) + random.uniform(-0.1, 0.1, count)) / count:
        eye = [radius * np.cos(angle), radius * np.sin(angle), 1.3 + 0.2 * np.sin(2 * angle)]
        found.append(Camera.look_at(eye, (0.0, 0.0, 0.5), UP, LENS))
    return found


def turning(count: int) -> list[Camera]:
    """Return cameras that turn by 110 degrees in one place."""
    eye = np.array([0.3, 0.2, 1.4])
    angles = np.radians(np.linspace(0, 110, count))
    targets = [eye + [np.cos(angle), np.sin(angle), -0.15] for angle in angles]
    return [Camera.look_at(eye, target, UP, LENS) for target in targets]


def walking(count: int) -> list[Camera]:
    """Return cameras that move along a corridor and look forward and to the side."""
    eyes = [np.array([x, 0.2 * np.sin(x), 1.4]) for x in np.linspace(-5, 5, count)]
    return [Camera.look_at(eye, eye + np.array([1.0, 0.5, -0.1]), UP, LENS) for eye in eyes]


CORNERS = (-3.5, -3.0, 0.0), (3.5, 3.0, 2.8)
PLAIN = np.full((TEXELS, TEXELS, 3), 205.0)


def textured(can: Floats | None, prints: int = 1) -> Room:
    """Return a room with different wallpapers."""
    return Room(*CORNERS, tuple(texture(seed) for seed in range(6)), can, prints)


def bare(can: Floats | None, prints: int = 1) -> Room:
    """Return a room with plain walls and a floor of equal tiles."""
    return Room(*CORNERS, (PLAIN, PLAIN, PLAIN, PLAIN, tiles(), PLAIN), can, prints)


def corridor() -> Room:
    """Return a long corridor whose walls repeat."""
    wall = texture(7)
    return Room((-8, -1.2, 0), (8, 1.2, 2.6), (texture(8), texture(9), wall, wall, tiles(), PLAIN))


@dataclass(frozen=True)
class RenderedCapture:
    """Photos to render."""

    name: str
    room: Callable[[], Room]
    cameras: Callable[[], list[Camera]]
    is_shuffled: bool = False  # Whether the names of the photos do not follow the walk.

    def write(self, folder: Path) -> dict[str, Camera]:
        """Write the photos to `folder`, and return the camera of each file name."""
        folder.mkdir(parents=True, exist_ok=True)
        room, cameras = self.room(), self.cameras()
        order = np.arange(len(cameras))
        if self.is_shuffled:
            order = np.random.default_rng(0).permutation(len(cameras))
        found = {}
        for number, camera in zip(order, cameras, strict=True):
            name = f"{number:03}.jpg"
            Image.fromarray(room.photo(camera)).save(folder / name, quality=95)
            found[name] = camera
        return found


def rendered_captures() -> Iterable[RenderedCapture]:
    """Yield all rendered inputs."""
    can = texture(20, 1.5)
    yield RenderedCapture("can, textured room", lambda: textured(can), lambda: ring(30))
    yield RenderedCapture("can, two prints, textured", lambda: textured(can, 2), lambda: ring(24))
    yield RenderedCapture("can, two prints, bare", lambda: bare(can, 2), lambda: ring(24))
    yield RenderedCapture("can, three prints, bare", lambda: bare(can, 3), lambda: ring(36))
    yield RenderedCapture("shuffled", lambda: bare(can, 2), lambda: ring(24), is_shuffled=True)
    yield RenderedCapture("turning in place", lambda: textured(None), lambda: turning(20))
    yield RenderedCapture("corridor", corridor, lambda: walking(40))
    yield RenderedCapture("empty bare room", lambda: bare(None), lambda: ring(24))
