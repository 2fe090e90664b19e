"""Matches and models of cameras around a can that looks the same from two sides, without photos."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from nerfmac.app.scenes.readers.colmap_model import ColmapCamera, ColmapImage, ColmapModel

WIDTH, HEIGHT, FOCAL = 800, 600, 700.0


class Captured(NamedTuple):
    """Images with features, and their true world-to-camera poses (3, 4) with OpenCV axes."""

    names: list[str]
    poses: list[np.ndarray]
    positions: np.ndarray  # True positions of all points.
    features: list[dict[int, np.ndarray]]  # Pixel of each point that an image sees.
    twin: dict[int, int]  # The point that looks the same, if any.


def look_at(eye, target):
    """Return a world-to-camera pose (3, 4) with OpenCV axes. z is up."""
    forward = np.subtract(target, eye) / np.linalg.norm(np.subtract(target, eye))
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    return np.column_stack([rotation, -rotation @ eye])


def around_a_can(count, *, background=200, arc=360.0, noise=0.3, alike=True, uneven=0.0):
    """Return images on a ring around a can. Its print is repeated on the other side if `alike`.
    The background consists of points on the floor and on walls around the cameras. `uneven` is the
    standard deviation of the camera positions from the ring."""
    random = np.random.default_rng(5)
    angle, height = random.uniform(0, np.pi, 150), random.uniform(0, 1.2, 150)
    angle, height = np.concatenate([angle, angle + np.pi]), np.tile(height, 2)
    can = np.stack([0.4 * np.cos(angle), 0.4 * np.sin(angle), height], axis=1)
    normals = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    turn, far = random.uniform(0, 2 * np.pi, background), random.uniform(1.0, 6.0, background)
    floor = np.stack([far * np.cos(turn), far * np.sin(turn), 0 * far], axis=1)
    walls = far > 4.0
    floor[walls, 2] = random.uniform(0, 3, int(walls.sum()))
    positions = np.concatenate([can, floor])
    names = [f"{number:02}.png" for number in range(count)]
    poses, features = [], []
    for at in np.radians(arc) * np.arange(count) / count:
        eye = np.array([3 * np.cos(at), 3 * np.sin(at), 1.5])
        eye += uneven * random.normal(size=3)
        pose = look_at(eye, [0, 0, 0.6])
        pixels, depth = project(pose, positions)
        inside = (depth > 0.3) & ((pixels > 0) & (pixels < [WIDTH, HEIGHT])).all(axis=1)
        toward = eye - can
        toward /= np.linalg.norm(toward, axis=1, keepdims=True)
        inside[: len(can)] &= (normals * toward).sum(axis=1) > 0.3
        pixels = pixels + random.normal(0, noise, pixels.shape)
        poses.append(pose)
        features.append({int(point): pixels[point] for point in np.flatnonzero(inside)})
    twin = {point: (point + 150) % 300 for point in range(300)} if alike else {}
    return Captured(names, poses, positions, features, twin)


def project(pose, positions):
    """Return pixels (n, 2) and depths (n,)."""
    local = positions @ pose[:, :3].T + pose[:, 3]
    return FOCAL * local[:, :2] / local[:, 2:] + [WIDTH / 2, HEIGHT / 2], local[:, 2]


def matches_of(captured, pairs=None):
    """Return the verified matches of image pairs: of the same points or, if these are more, of
    points that look the same."""
    found = {}
    every = combinations(range(len(captured.names)), 2)
    for i, j in every if pairs is None else pairs:
        one, other = captured.features[i], captured.features[j]
        same = [(point, point) for point in one if point in other]
        twins = [(p, captured.twin[p]) for p in one if captured.twin.get(p) in other]
        best = max(same, twins, key=len)
        if len(best) >= 15:
            rows = [[*one[first], *other[second]] for first, second in best]
            found[captured.names[i], captured.names[j]] = np.array(rows, np.float32)
    return found


def model_of(captured, poses=None, kept=None, groups=None):
    """Return a model with these poses, by default the true ones.

    A point belongs to the model once for each group of images that `groups`, by default one group,
    assigns to the images. Its position is the true one, moved like the first camera that sees it.
    """
    poses = captured.poses if poses is None else poses
    kept = range(len(captured.names)) if kept is None else kept
    groups = [0] * len(captured.names) if groups is None else groups
    rows, position, images = {}, [], []
    for index in kept:
        pixels, numbers = [], []
        for point, pixel in captured.features[index].items():
            key = groups[index], point
            if key not in rows:
                rows[key] = len(rows) + 1
                local = captured.poses[index][:, :3] @ captured.positions[point]
                local += captured.poses[index][:, 3]
                position.append(poses[index][:, :3].T @ (local - poses[index][:, 3]))
            pixels.append(pixel)
            numbers.append(rows[key])
        images.append(
            ColmapImage(captured.names[index], 1, poses[index], np.array(pixels), np.array(numbers))
        )
    camera = ColmapCamera(
        "PINHOLE", WIDTH, HEIGHT, {"fl_x": FOCAL, "fl_y": FOCAL, "cx": WIDTH / 2, "cy": HEIGHT / 2}
    )
    count = len(rows)
    numbers, errors = np.arange(1, count + 1), np.full(count, 0.4)
    return ColmapModel({1: camera}, images, np.array(position), numbers, errors)


def folded(captured):
    """Return poses as if the second half of the images showed the first side of the can."""
    half = np.diag([-1.0, -1.0, 1.0])  # A rotation by 180 degrees around the axis of the can.
    middle = len(captured.poses) // 2
    turned = [np.column_stack([p[:, :3] @ half, p[:, 3]]) for p in captured.poses[middle:]]
    return captured.poses[:middle] + turned
