"""Structures as COLMAP would find them, made from cameras that are known."""

from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.app.capture.findings import Verdict
from nerfmac.app.capture.structure import Structure
from nerfmac.app.scenes.readers.colmap_model import ColmapCamera, ColmapImage, ColmapModel

TO_OPENCV = np.array([1.0, -1.0, -1.0])
LENS = {"fl_x": 70.0, "fl_y": 71.0, "cx": 32.0, "cy": 24.0}
BENT = {"k1": 0.05, "k2": -0.01, "p1": 0.001, "p2": -0.002}


def ring_of(count, *, scale, rotation, offset):
    """Return a structure of `count` cameras on a circle, in a frame of a similarity's making.

    In their own frame z is up, the circle has the radius 2 and the height 1, and they look at the
    origin, around which 200 points lie.
    """
    random = np.random.default_rng(11)
    points = random.uniform(-0.5, 0.5, (200, 3)) * [1.0, 0.7, 0.4]
    images = []
    for number in range(count):
        angle = 2 * np.pi * number / count
        eye = np.array([2 * np.cos(angle), 2 * np.sin(angle), 1.0])
        back = eye / np.linalg.norm(eye)
        right = np.cross([0, 0, 1], back)
        right /= np.linalg.norm(right)
        to_file = rotation @ np.stack([right, np.cross(back, right), back], axis=1)
        world_to_camera = (to_file * TO_OPENCV).T
        place = scale * rotation @ eye + offset
        pose = np.column_stack([world_to_camera, -world_to_camera @ place])
        images.append(ColmapImage(f"{number:02}.png", 1, pose))
    rows = np.zeros((200, 8))
    rows[:, :3] = scale * points @ rotation.T + offset
    rows[:, 3:6], rows[:, 7] = random.integers(0, 255, (200, 3)), 5
    camera = ColmapCamera("OPENCV", 64, 48, LENS | BENT)
    model = ColmapModel({1: camera}, images, rows[:, :3])
    return Structure(model, 0.5, rows, [count], "sequential", Verdict(), Path("sparse"))


def write_images(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2)
    for name in names:
        Image.fromarray(random.integers(0, 255, (48, 64, 3), np.uint8)).save(folder / name)
