"""Render the built-in scene, a still life, to a dataset in NeRF-synthetic (Blender) format.

The scene in `scripts/still_life.py` consists of signed distance fields. Each field is sphere-traced
inside its own bounding box. The light sources are a sun with soft shadows and a sky dome with
ambient occlusion. Glossy objects reflect the sky dome and other objects, with one bounce. The
script uses no random numbers, so the same NumPy version always writes the same bytes.

In world coordinates, z is up, and all objects are in the cube [-1.2, 1.2]^3. A camera looks along
its -z axis (OpenGL axes). Points and directions are float32 (3, n), and lengths are in scene units.
Images are sRGB with straight alpha. In the background, alpha is 0.

    python scripts/make_scene.py --out data/still_life
    python scripts/make_scene.py --out /tmp/look --size 128 --views 4 0 0
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from still_life import THINGS as ROWS, column, ease, mix

Array = np.ndarray[Any, Any]  # float32 unless said otherwise

CAMERA_ANGLE_X = 0.6911112070083618  # radians, as in NeRF-synthetic
CAMERA_DISTANCE = 4.0311
HIT = 4e-4  # a ray hits a surface within this distance
SUN = np.array([[0.5185], [-0.4587], [0.7217]], np.float32)  # unit vector toward the sun
SUN_COLOR = np.array([[1.90], [1.72], [1.44]], np.float32)
SUN_WIDTH = 0.07  # tangent of the angular radius of the sun, determines the softness of shadows
LAMP = np.array(
    [[-0.5500], [-0.3500], [0.7583]], np.float32
)  # unit vector to a wide lamp that is visible only in reflections


@dataclass(frozen=True)
class Thing:
    """Object of the scene: its shape, paint, position, and material."""

    shape: Callable[[Array], tuple[Array, Callable[[], Array]]]
    size: Sequence[float]  # half the width, half the depth, and the height
    place: Sequence[float]  # world position of the foot
    yaw: float  # degrees
    metal: float  # fraction of the color that tints reflections instead of scattering
    step: float  # fraction of the distance that is safe to walk

    def rotation(self) -> Array:
        """Return the rotation (3, 3) from world axes to object axes."""
        c, s = np.cos(np.radians(self.yaw)), np.sin(np.radians(self.yaw))
        return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]], np.float32)

    def local(self, point: Array) -> Array:
        """Convert points from world coordinates to object coordinates."""
        return self.rotation() @ (point - column(self.place))

    def enter(self, origin: Array, direction: Array, margin: float) -> Array:
        """Convert rays from world to object coordinates. The rows of the result are the origin (3),
        the direction (3), and the distances to the entry and the exit of the bounding box."""
        start, heading = self.local(origin), self.rotation() @ direction
        low, high = column([-self.size[0], -self.size[1], 0.0]), column(self.size)
        inverse = 1.0 / np.where(np.abs(heading) < 1e-7, np.float32(1e-7), heading)
        first, second = (low - margin - start) * inverse, (high + margin - start) * inverse
        near = np.maximum(np.minimum(first, second).max(axis=0), 0.0)
        far = np.maximum(first, second).min(axis=0)
        return np.concatenate([start, np.broadcast_to(heading, start.shape), [near, far]])


THINGS = [Thing(**row) for row in ROWS]


def trace(origin: Array, direction: Array) -> tuple[Array, Array]:
    """Return the distance (n,) to the first hit of each ray in world coordinates, and the index
    (n,) of the object. Without a hit, the distance is infinite and the index is -1."""
    nearest = np.full(origin.shape[1], np.inf, np.float32)
    which = np.full(origin.shape[1], -1)
    for index, thing in enumerate(THINGS):
        ray = thing.enter(origin, direction, 0.002)
        ray[7] = np.minimum(ray[7], nearest)
        rows = np.flatnonzero(ray[6] < ray[7])
        ray = ray[:, rows]
        for _ in range(96):
            gap = thing.shape(ray[:3] + ray[3:6] * ray[6])[0]
            hit = gap < HIT
            nearest[rows[hit]], which[rows[hit]] = ray[6, hit], index
            ray[6] += thing.step * gap
            keep = ~hit & (ray[6] < ray[7])
            rows, ray = rows[keep], ray[:, keep]
            if not rows.size:
                break
    return nearest, which


def sunlight(point: Array) -> Array:
    """Return the fraction (n,) of the sun's disc that is visible from each point, estimated from
    the minimum distance between the ray to the sun and the objects."""
    seen = np.ones(point.shape[1], np.float32)
    for thing in THINGS:
        ray = thing.enter(point, SUN, 0.05)
        rows = np.flatnonzero((ray[6] < ray[7]) & (seen > 0))
        ray = ray[:, rows]
        ray[6] = np.maximum(ray[6], 0.012)
        for _ in range(40):
            if not rows.size:
                break
            gap = thing.shape(ray[:3] + ray[3:6] * ray[6])[0]
            clear = ease(-1.0, 1.0, gap / (SUN_WIDTH * ray[6]))
            seen[rows] = np.minimum(seen[rows], clear)
            ray[6] += np.clip(thing.step * gap, 0.008, 0.1)
            keep = (ray[6] < ray[7]) & (clear > 0)
            rows, ray = rows[keep], ray[:, keep]
    return seen


def openness(point: Array, normal: Array) -> Array:
    """Return the fraction (n,) of the sky dome that is visible from each point, estimated from the
    distances to objects along the normal."""
    shut = np.zeros((4, point.shape[1]), np.float32)
    for thing in THINGS:
        ray = thing.enter(point, normal, 0.1)
        rows = np.flatnonzero(ray[6] < np.minimum(ray[7], 0.28))
        for row, (tap, weight) in enumerate(((0.03, 0.2), (0.08, 0.3), (0.16, 0.3), (0.28, 0.25))):
            gap = thing.shape(ray[:3, rows] + ray[3:6, rows] * tap)[0]
            shut[row, rows] = np.maximum(shut[row, rows], weight * (1 - gap / tap))
    return np.clip(1.0 - shut.sum(axis=0), 0.08, 1.0)


def sky(direction: Array) -> Array:
    """Return the radiance (3, n) of the sky dome along reflected rays that hit no object."""
    lamp = np.exp(-14.0 * (1.0 - (direction * LAMP).sum(axis=0)))
    dome = mix((0.30, 0.27, 0.25), (0.62, 0.78, 1.0), ease(-0.3, 0.9, direction[2]))
    return dome + column((1.5, 1.45, 1.35)) * lamp


def surface(point: Array, which: Array) -> tuple[Array, Array]:
    """Return the unit normals (3, n) and the paint (4, n) at points on objects."""
    normal, paint = np.zeros_like(point), np.zeros((4, point.shape[1]), np.float32)
    for index in np.unique(which):
        thing, rows = THINGS[index], np.flatnonzero(which == index)
        p = thing.local(point[:, rows])
        slope = np.zeros_like(p)
        for corner in ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1)):
            slope += column(corner) * thing.shape(p + np.float32(0.0015) * column(corner))[0]
        normal[:, rows] = thing.rotation().T @ (
            slope / np.maximum(np.linalg.norm(slope, axis=0), 1e-9)
        )
        paint[:, rows] = thing.shape(p)[1]()
    return normal, paint


def shade(point: Array, direction: Array, which: Array, bounces: int = 1) -> Array:
    """Return the radiance (3, n) from hit points toward the ray origins."""
    normal, paint = surface(point, which)
    albedo, gloss = paint[:3], paint[3]
    metal = np.array([thing.metal for thing in THINGS], np.float32)[which]
    above, open_sky = point + 0.003 * normal, openness(point, normal)
    sun = SUN_COLOR * np.maximum((normal * SUN).sum(axis=0), 0.0) * sunlight(above)
    dome = mix((0.32, 0.24, 0.18), (0.70, 0.76, 0.86), 0.5 + 0.5 * normal[2])
    light = albedo * (1.0 - metal) * (sun + dome * open_sky)
    cosine = np.clip(-(direction * normal).sum(axis=0), 0.0, 1.0)
    mirror = direction + 2.0 * cosine * normal
    glint = gloss * np.exp(90.0 * ((mirror * SUN).sum(axis=0) - 1.0))
    light += glint * sun * mix((0.35, 0.35, 0.35), albedo, metal)
    reflected = gloss * mix(
        np.tile(0.05 + 0.45 * (1.0 - cosine) ** 5, (3, 1)), 0.05 + albedo, metal
    )
    found = sky(mirror) * open_sky
    rows = np.flatnonzero((gloss > 0.25) * bounces)
    if rows.size:  # In a reflection, glossy objects reflect only the sky dome.
        found[:, rows] = sky(mirror[:, rows])
        t, other = trace(above[:, rows], mirror[:, rows])
        hit = np.flatnonzero(other >= 0)
        rows, t, other = rows[hit], t[hit], other[hit]
        ahead = mirror[:, rows]
        found[:, rows] = shade(above[:, rows] + ahead * t, ahead, other, 0)
    return light + reflected * found


def display(light: Array) -> Array:
    """Convert linear radiance to sRGB below 1. Bright values are compressed by a soft shoulder
    before the sRGB transfer function."""
    light = np.where(light > 0.5, 0.5 + 0.5 * np.tanh((light - 0.5) / 0.5), light)
    return np.where(light < 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def sample(pose: Array, corner: Array, side: int, size: int) -> Array:
    """Return premultiplied sRGB and alpha (4, side * side, n) on a grid of samples in each pixel.
    The corners of the pixels are `corner` (2, n)."""
    steps = (np.arange(side) + 0.5) / side
    grid = np.stack(np.meshgrid(steps, steps)).reshape(2, -1, 1)
    pixel = (corner[:, None] + grid).reshape(2, -1)
    x, y = (pixel - size / 2) * (np.tan(CAMERA_ANGLE_X / 2) * 2 / size)
    ray = pose[:3, :3] @ np.stack([x, -y, -np.ones_like(x)])
    ray = (ray / np.linalg.norm(ray, axis=0)).astype(np.float32)
    result = np.zeros((4, ray.shape[1]), np.float32)
    origin = pose[:3, 3:].astype(np.float32)
    for rows in np.array_split(np.arange(ray.shape[1]), ray.shape[1] // 65536 + 1):
        t, which = trace(np.broadcast_to(origin, (3, rows.size)), ray[:, rows])
        rows, t, which = rows[which >= 0], t[which >= 0], which[which >= 0]
        result[:3, rows] = display(shade(origin + ray[:, rows] * t, ray[:, rows], which))
        result[3, rows] = 1.0
    return result.reshape(4, side * side, -1)


def image(pose: Array, size: int) -> Array:
    """Return an image, uint8 (size, size, 4), with 2 x 2 samples per pixel. Pixels near differing
    samples have 4 x 4 samples.

    Samples are averaged after the sRGB transfer, because images are blended with a background and
    fields are trained in this space.
    """
    corner = np.stack(np.meshgrid(np.arange(size), np.arange(size))).reshape(2, -1)
    first = sample(pose, corner, 2, size)
    rough = np.pad((np.ptp(first, axis=1).max(axis=0) > 0.02).reshape(size, size), 1)
    around = [rough[y : y + size, x : x + size] for y in range(3) for x in range(3)]
    rows = np.flatnonzero(np.any(around, axis=0))
    mean = first.mean(axis=1)
    mean[:, rows] = sample(pose, corner[:, rows], 4, size).mean(axis=1)
    mean[:3] /= np.maximum(mean[3], 1e-6)
    return np.round(255 * mean.T.reshape(size, size, 4)).astype(np.uint8)


def poses(count: int, phase: float) -> Array:
    """Return camera-to-world matrices (count, 4, 4). The cameras look at the origin, with
    elevations from 5 to 75 degrees."""
    index = np.arange(count)
    low, high = np.sin(np.radians([5.0, 75.0]))
    height = low + (high - low) * (index + 0.5) / max(count, 1)
    azimuth = np.pi * (3 - np.sqrt(5)) * index + phase
    flat = np.sqrt(1 - height**2)
    back = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), height], axis=1)
    right = np.stack([-np.sin(azimuth), np.cos(azimuth), 0 * azimuth], axis=1)
    pose = np.tile(np.eye(4), (count, 1, 1))
    pose[:, :3, :3] = np.stack([right, np.cross(back, right), back], axis=2)
    pose[:, :3, 3] = CAMERA_DISTANCE * back
    return pose


def main() -> None:
    """Parse the command line and write the three splits."""
    parser = argparse.ArgumentParser(description="Render the built-in still life.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--size", type=int, default=256, help="side of an image, in pixels")
    parser.add_argument("--views", type=int, nargs=3, default=(80, 4, 10), help="train, val, test")
    arguments = parser.parse_args()
    for split, count, phase in zip(
        ("train", "val", "test"), arguments.views, (0.0, 3.2, 0.2), strict=True
    ):
        (arguments.out / split).mkdir(parents=True, exist_ok=True)
        frames = []
        for index, pose in enumerate(poses(count, phase)):
            name = f"{split}/r_{index}"
            made = Image.fromarray(image(pose, arguments.size))
            made.save(arguments.out / f"{name}.png", optimize=True)
            frames.append({"file_path": f"./{name}", "transform_matrix": pose.tolist()})
            print(name, flush=True)
        text = json.dumps({"camera_angle_x": CAMERA_ANGLE_X, "frames": frames}, indent=1)
        (arguments.out / f"transforms_{split}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
