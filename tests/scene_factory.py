"""A scene small enough to train on in a test: two balls, seen by cameras that agree about them.

Nothing in it is symmetric: the balls differ in size, place and color, and their color changes
along every axis. Cameras stand on a rising spiral.
"""

import json
import signal
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from nerfmac.app.cli import main
from nerfmac.app.run import CONFIGURED
from nerfmac.config import Config, override
from nerfmac.config.presets import PRESETS
from nerfmac.geometry import Bounds, Camera, Lens, Views
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer
from tests.pinhole import pixel_rays, sphere_hits

WIDTH, HEIGHT = 20, 16
ANGLE = 0.7  # radians that an image is wide
BALLS = (((0.4, -0.1, 0.3), 0.75, (0.9, 0.3, 0.1)), ((-0.6, 0.4, -0.4), 0.5, (0.1, 0.5, 0.8)))
"""Center and radius in the file's units, and color."""

# The preset's own networks, so that its kernels serve; the rest is as small as it can be.
CONFIG: Config = override(
    PRESETS["tiny"],
    grid={"log2_entries": 10, "finest": 512},
    march={"steps": 64, "max_samples": 2**11},
    train={"rays": 64, "max_rays": 2**10},
)

COARSE: Config = override(CONFIG, march={"steps": 16})
"""For viewers: they draw large images, and before there was training nowhere is nothing."""

FLAGS = (
    *("--preset", "tiny", "--device", "cpu", "--grid.log2-entries", "10"),
    *("--grid.finest", "512", "--march.steps", "64"),
    *("--march.max-samples", "2048", "--train.rays", "64", "--train.max-rays", "1024"),
)
"""`CONFIG` for the command line."""


def trainer_of(
    config: Config, bounds: Bounds, views: Views, method: Method = CONFIGURED
) -> Trainer:
    return Trainer(Model(config, bounds, views.cameras, method), views)


def initial(trainer: Trainer) -> TrainState:
    """The state before the first step."""
    return trainer.model.init(trainer.views)


def nerfmac(*arguments: object) -> int:
    handler, device = signal.getsignal(signal.SIGTERM), mx.default_device()
    try:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
    finally:
        signal.signal(signal.SIGTERM, handler)
        mx.set_default_device(device)
    assert isinstance(end.value.code, int)
    return end.value.code


def write_scene(folder: Path, *, test: int = 2, train: int = 8) -> Path:
    """Write the scene in Blender's format; return its folder."""
    lens = Lens.from_fov(ANGLE, WIDTH, HEIGHT)
    poses = [_pose(index, lens) for index in range(test + train)]
    for split, chosen in (("test", poses[:test]), ("train", poses[test:])):
        frames = []
        for index, pose in enumerate(chosen):
            (folder / split).mkdir(parents=True, exist_ok=True)
            matrix = [*pose.tolist(), [0.0, 0.0, 0.0, 1.0]]
            frames.append({"file_path": f"./{split}/r_{index}", "transform_matrix": matrix})
            Image.fromarray(_image(pose, lens)).save(folder / split / f"r_{index}.png")
        if frames:
            values = {"camera_angle_x": ANGLE, "frames": frames}
            (folder / f"transforms_{split}.json").write_text(json.dumps(values))
    return folder


def _pose(index: int, lens: Lens) -> np.ndarray:
    azimuth = 2.4 * index  # the golden angle: any number of them is spread out
    eye = (3.6 * np.cos(azimuth), 3.9 * np.sin(azimuth), 0.4 + 0.22 * index)
    return Camera.look_at(eye, (0.05, 0.1, -0.05), (0, 0, 1), lens).pose.astype(float)


def _image(pose: np.ndarray, lens: Lens) -> np.ndarray:
    """uint8 (h, w, 4): image of the balls from a camera, transparent around them."""
    origin, direction = pixel_rays(Camera(lens, pose))
    nearest = np.full((HEIGHT, WIDTH), np.inf)
    image = np.zeros((HEIGHT, WIDTH, 4))
    for center, radius, color in BALLS:
        distance = sphere_hits(origin, direction, center, radius)
        is_seen = distance < nearest
        nearest[is_seen] = distance[is_seen]
        normal = (origin + nearest[is_seen, None] * direction[is_seen] - center) / radius
        image[is_seen] = np.c_[np.clip(color + 0.25 * normal, 0, 1), np.ones(len(normal))]
    return (image * 255 + 0.5).astype(np.uint8)
