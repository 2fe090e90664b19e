"""Captures of worlds: features with known truth in a database of COLMAP, made without photos."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.capture import colmap_process
from nerfmac.app.capture.inputs import CapturedImage
from nerfmac.geometry.cameras import Camera
from tests.variety.worlds import World

NOISE = 0.4  # Standard deviation of the position of a feature in pixels.
DETECTED = 0.75  # Probability that an image has a feature at a visible point.
SIFT_ANGLE = 40.0  # Angle in degrees between viewing directions up to which features match.
WRONG = 0.05  # Fraction of matches that are wrong.


class Features(NamedTuple):
    """Features of an image: the number of the point (n,), the pixel (n, 2), and the viewing
    direction with the length of the viewing distance (n, 3)."""

    point: np.ndarray
    pixel: np.ndarray
    direction: np.ndarray


def features_of(world: World, cameras: Sequence[Camera], count: int = 6000) -> list[Features]:
    """Return noisy features of random points of the world in each image."""
    random = np.random.default_rng(5)
    points, found = world.points(count, random), []
    for camera in cameras:
        local = (points - camera.pose[:, 3]) @ camera.pose[:, :3]
        depth = np.maximum(-local[:, 2], 1e-9)
        lens = camera.lens
        pixel = np.stack(
            [local[:, 0] / depth * lens.fl_x + lens.cx, lens.cy - local[:, 1] / depth * lens.fl_y],
            axis=1,
        )
        pixel += random.normal(0, NOISE, pixel.shape)
        inside = (local[:, 2] < 0) & ((pixel > 0) & (pixel < [lens.width, lens.height])).all(axis=1)
        rows = np.flatnonzero(inside & (random.random(count) < DETECTED))
        rows = rows[world.visible(camera, points[rows])]
        found.append(Features(rows, pixel[rows], points[rows] - camera.pose[:, 3]))
    return found


def matched(one: Features, other: Features, random: np.random.Generator) -> np.ndarray:
    """Return the rows (m, 2) of matching features of two images. The more the viewing directions
    and distances differ, the fewer features match."""
    _, first, second = np.intersect1d(one.point, other.point, return_indices=True)
    a, b = one.direction[first], other.direction[second]
    far, near = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    angle = np.degrees(np.arccos(np.clip((a * b).sum(1) / (far * near), -1, 1)))
    scale = np.abs(np.log2(far / near))
    kept = random.random(len(first)) < np.exp(-((angle / SIFT_ANGLE) ** 2) * 3 - scale**2)
    second = second.copy()
    wrong = np.flatnonzero(random.random(len(second)) < WRONG)
    second[wrong] = np.roll(second[wrong], 1)
    return np.stack([first[kept], second[kept]], axis=1).astype(np.uint32)


def write_database(
    folder: Path, world: World, cameras: Sequence[Camera], *, focal: float = 0.0
) -> list[CapturedImage]:
    """Write `database.db` with features, and return the images. `focal` is the focal length that
    EXIF specifies in pixels, or 0."""
    import pycolmap

    features = features_of(world, cameras)
    images = [
        CapturedImage(f"photo {n:03}.jpg", c.lens.width, c.lens.height, focal)
        for n, c in enumerate(cameras)
    ]
    with pycolmap.Database.open(folder / "database.db") as database:
        lens_of, numbers = {}, []
        for image, found in zip(images, features, strict=True):
            size = image.width, image.height
            if size not in lens_of:
                lens_of[size] = _camera(pycolmap, database, size, focal)
            number, rig = lens_of[size]
            entry = pycolmap.Image(name=f"{len(numbers):06}.jpg", camera_id=number)
            entry.image_id = database.write_image(entry)
            frame = pycolmap.Frame()
            frame.rig_id = rig
            frame.add_data_id(entry.data_id)
            database.write_frame(frame)
            database.write_keypoints(entry.image_id, found.pixel.astype(np.float32))
            numbers.append(entry.image_id)
    return images


def match_pairs(
    pycolmap: Any, folder: Path, plan: Any, world: World, cameras: Sequence[Camera]
) -> None:
    """Replace COLMAP's matching of the pairs in the plan."""
    features = features_of(world, cameras)
    with pycolmap.Database.open(folder / "database.db") as database:
        names = colmap_process.Names(plan, folder / "numbered")
        entries = {names.given(entry.name): entry for entry in database.read_all_images()}
        number = {name: entry.image_id for name, entry in entries.items()}
        camera = {name: database.read_camera(entry.camera_id) for name, entry in entries.items()}
        index = {name: row for row, name in enumerate(plan["names"])}
        for one, other in plan["pairs"]:
            if database.exists_two_view_geometry(number[one], number[other]):
                continue
            i, j = index[one], index[other]
            pairs = matched(features[i], features[j], np.random.default_rng([i, j]))
            if len(pairs) < 15:
                continue
            geometry = pycolmap.estimate_two_view_geometry(
                camera[one], features[i].pixel, camera[other], features[j].pixel, pairs
            )
            if len(geometry.inlier_matches) >= 15:
                database.write_two_view_geometry(number[one], number[other], geometry)


def _camera(pycolmap: Any, database: Any, size: tuple[int, int], focal: float) -> tuple[int, int]:
    width, height = size
    known = focal or 0.85 * max(size)
    lens = pycolmap.Camera.create_from_model_name(
        1, colmap_process.LENS_MODEL, known, width, height
    )
    lens.has_prior_focal_length = bool(focal)
    lens.camera_id = database.write_camera(lens)
    rig = pycolmap.Rig()
    rig.add_ref_sensor(lens.sensor_id)
    return lens.camera_id, database.write_rig(rig)
