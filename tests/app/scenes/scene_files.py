"""Small scenes written to disk: no two images, cameras or axes alike."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.geometry import Camera, Lens

WIDTH, HEIGHT = 24, 16
LENS = {"fl_x": 30.0, "fl_y": 29.0, "cx": 11.0, "cy": 8.5, "w": WIDTH, "h": HEIGHT}
PLACED = {"aabb_scale": 2}


def matrix(index: int) -> list[list[float]]:
    """A camera-to-file matrix (4, 4): somewhere on a rising spiral, looking near the origin."""
    eye = (3 * np.cos(index), 3.5 * np.sin(index), 1 + 0.1 * index)
    lens = Lens.from_fov(1.0, WIDTH, HEIGHT)
    pose = Camera.look_at(eye, (0.1, 0.2, 0.3), (0, 0, 1), lens).pose
    return [*pose.astype(float).tolist(), [0.0, 0.0, 0.0, 1.0]]


def pixels(index: int, channels: int = 3, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """uint8 (h, w, channels): column, row and image can be told from a color; alpha varies."""
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    planes = [column * 5, row * 7, np.full_like(row, index * 3), 255 - column - row]
    return np.stack(planes[:channels], axis=-1).astype(np.uint8)


def save(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


def write_transforms(folder: Path, count: int = 10, *, absent=(), frame=None, **top) -> Path:
    """A transforms.json of `count` frames, `top` over its top level, `frame` {index: values}."""
    frames = [
        {"file_path": f"images/{index:03d}.png", "transform_matrix": matrix(index)}
        | (frame or {}).get(index, {})
        for index in range(count)
    ]
    for index in range(count):
        if index not in absent:
            save(folder / f"images/{index:03d}.png", pixels(index))
    return write_json(folder / "transforms.json", {**LENS, **PLACED, "frames": frames, **top})


def write_unplaced(folder: Path, matrices, names="{:03d}.png", channels=3, **top) -> Path:
    """A transforms.json without aabb_scale, scale, and offset, by default without a lens."""
    frames = []
    for index, each in enumerate(matrices):
        name = names.format(index)
        save(folder / name, pixels(index, channels))
        frames.append({"file_path": name, "transform_matrix": each})
    return write_json(folder / "transforms.json", {**top, "frames": frames})


def write_blender(folder: Path, *, channels: int = 4, **counts: int) -> Path:
    for split, count in counts.items():
        frames = []
        for index in range(count):
            frames.append({"file_path": f"./{split}/r_{index}", "transform_matrix": matrix(index)})
            save(folder / f"{split}/r_{index}.png", pixels(index, channels))
        write_json(folder / f"transforms_{split}.json", {"camera_angle_x": 0.8, "frames": frames})
    return folder


def write_json(path: Path, values: object) -> Path:
    """Write JSON, NaN included, as careless tools do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path
