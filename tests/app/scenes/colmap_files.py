"""A COLMAP model written to disk, in either form, with the cameras of `scene_files.matrix`."""

import struct
from pathlib import Path

import numpy as np

from nerfmac.app.paths.curve import quaternions
from tests.app.scenes.scene_files import HEIGHT, WIDTH, matrix, pixels, save

MODELS = (
    *("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "OPENCV_FISHEYE"),
    *("FULL_OPENCV", "FOV", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "THIN_PRISM_FISHEYE"),
    *("RAD_TAN_THIN_PRISM_FISHEYE", "SIMPLE_DIVISION", "DIVISION", "SIMPLE_FISHEYE", "FISHEYE"),
    *("EUCM", "EQUIRECTANGULAR"),
)
"""Names of COLMAP's camera models, in the order of their numbers."""
OPENCV = (30.0, 29.0, 11.0, 8.5, 0.08, -0.03, 0.004, -0.006)
POINTS = np.array([[0.1, 0.2, 0.3], [0.4, -0.3, 0.1], [-0.2, 0.5, 0.6]])
ERRORS = (0.5, 0.75, 1.5)
Shown = tuple[float, float, int]
"""Column and row of a pixel, and the number of the point there; -1: of none."""


def quaternion(index: int) -> tuple[np.ndarray, np.ndarray]:
    """World to camera with OpenCV's axes: (w, x, y, z) and the translation."""
    pose = np.array(matrix(index))[:3]
    rotation = (pose[:, :3] * [1, -1, -1]).T
    return quaternions(rotation[None])[0], -rotation @ pose[:, 3]


def write_colmap(
    folder: Path,
    count: int = 10,
    *,
    model: str = "OPENCV",
    parameters: tuple[float, ...] = OPENCV,
    sparse: str = "sparse/0",
    images: str = "images",
    binary: bool = True,
    absent: tuple[int, ...] = (),
    shown: dict[int, list[Shown]] | None = None,
) -> Path:
    """A scene of `count` registered images, a camera each; return its folder.

    `shown` are the pixels of some images that show points; by default none shows a known one.
    """
    place = folder / sparse
    place.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        if index not in absent:
            save(folder / images / f"{index:03d}.png", pixels(index))
    points = [(shown or {}).get(index, [(1.0, 2.0, -1)] * index) for index in range(count)]
    (_write_binary if binary else _write_text)(place, points, model, parameters)
    return folder


def _write_binary(
    place: Path, shown: list[list[Shown]], model: str, parameters: tuple[float, ...]
) -> None:
    count = len(shown)
    cameras = images = points = struct.pack("<Q", count)
    for index in range(count):
        camera = 100 + index
        cameras += struct.pack("<IiQQ", camera, MODELS.index(model), WIDTH, HEIGHT)
        cameras += struct.pack(f"<{len(parameters)}d", *parameters)
        rotation, translation = quaternion(index)
        images += struct.pack("<I7dI", 7 * index, *rotation, *translation, camera)
        images += f"{index:03d}.png".encode() + b"\0" + struct.pack("<Q", len(shown[index]))
        images += b"".join(struct.pack("<ddq", *point) for point in shown[index])
    points = struct.pack("<Q", len(POINTS))
    for index, point in enumerate(POINTS):
        points += struct.pack("<Q3d3BdQ", index, *point, 1, 2, 3, ERRORS[index], index)
        points += struct.pack("<II", 1, 2) * index
    for name, content in (("cameras", cameras), ("images", images), ("points3D", points)):
        (place / f"{name}.bin").write_bytes(content)


def _write_text(
    place: Path, shown: list[list[Shown]], model: str, parameters: tuple[float, ...]
) -> None:
    cameras, images, points = ["# Camera list"], ["# Image list"], ["# Points"]
    for index in range(len(shown)):
        numbers = " ".join(repr(value) for value in parameters)
        cameras.append(f"{100 + index} {model} {WIDTH} {HEIGHT} {numbers}")
        rotation, translation = quaternion(index)
        pose = " ".join(repr(float(value)) for value in (*rotation, *translation))
        images.append(f"{7 * index} {pose} {100 + index} {index:03d}.png")
        images.append(" ".join(f"{x!r} {y!r} {point}" for x, y, point in shown[index]))
    for index, point in enumerate(POINTS):
        points.append(f"{index} {' '.join(map(str, point))} 1 2 3 {ERRORS[index]} 1 2")
    for name, lines in (("cameras", cameras), ("images", images), ("points3D", points)):
        (place / f"{name}.txt").write_text("\n".join(lines) + "\n")
