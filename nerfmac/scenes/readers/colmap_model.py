"""A COLMAP model: `cameras`, `images` and `points3D`, all .bin or all .txt files.

The layout is that of COLMAP's documentation ("Output Format"). Poses map world to camera with
OpenCV's axes: x right, y down, z forwards; quaternions are (w, x, y, z). As in this package, the
centre of the top left pixel is (0.5, 0.5). The files `rigs` and `frames` of newer models are not
needed, as `images` still has the pose of every picture.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError, prefix_errors
from nerfmac.scenes.poses import rotation_of

PARAMETERS = {
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fl_x fl_y cx cy",
    "SIMPLE_RADIAL": "f cx cy k1",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fl_x fl_y cx cy k1 k2 p1 p2",
    "OPENCV_FISHEYE": "fl_x fl_y cx cy k1 k2 k3 k4",
    "FULL_OPENCV": "fl_x fl_y cx cy k1 k2 p1 p2 k3 d1 d2 d3",
    "FOV": "fl_x fl_y cx cy omega",
    "SIMPLE_RADIAL_FISHEYE": "f cx cy k1",
    "RADIAL_FISHEYE": "f cx cy k1 k2",
    "THIN_PRISM_FISHEYE": "fl_x fl_y cx cy k1 k2 p1 p2 k3 k4 sx1 sy1",
    "RAD_TAN_THIN_PRISM_FISHEYE": "fl_x fl_y cx cy k1 k2 k3 k4 k5 k6 p1 p2 sx1 sx2 sy1 sy2",
}
"""Names of the parameters of COLMAP's camera models, in the order of the models' numbers in binary
files. d1 to d3 are the coefficients of FULL_OPENCV's denominator."""

Parsed = TypeVar("Parsed")

UNREADABLE = (struct.error, UnicodeDecodeError, ValueError, IndexError)


class ColmapCamera(NamedTuple):
    """A lens: its model's name, the picture's size in pixels, and its parameters by name."""

    model: str
    width: int
    height: int
    parameters: dict[str, float]


class ColmapImage(NamedTuple):
    """A registered picture: its name, its camera's number, and its world-to-camera pose (3, 4)."""

    name: str
    camera: int
    pose: npt.NDArray[np.float64]


class ColmapModel(NamedTuple):
    """Cameras by number, the registered pictures, and the sparse points (n, 3)."""

    cameras: dict[int, ColmapCamera]
    images: list[ColmapImage]
    points: npt.NDArray[np.float64]


def is_model(folder: Path) -> bool:
    """Return whether `folder` holds the cameras and pictures of a model, in either form."""
    return any(
        (folder / f"cameras.{ending}").is_file() and (folder / f"images.{ending}").is_file()
        for ending in ("bin", "txt")
    )


def count_images(folder: Path) -> int:
    """Return the number of pictures of the model in `folder`, from a binary file's first bytes."""
    path = folder / "images.bin"
    if path.is_file():
        return int.from_bytes(_bytes(path)[:8], "little")
    return len(read_model(folder).images)


def read_model(folder: Path) -> ColmapModel:
    """Read the model in `folder`; the binary files if both forms are there. Points may be absent.

    Raises InputError that names the file if it is cut short or is no such file, and for a number
    that is not finite.
    """
    if (folder / "cameras.bin").is_file():
        ending, parsers = "bin", (_binary_cameras, _binary_images, _binary_points)
    else:
        ending, parsers = "txt", (_text_cameras, _text_images, _text_points)
    paths = [folder / f"{name}.{ending}" for name in ("cameras", "images", "points3D")]
    cameras = dict(_parsed(paths[0], parsers[0]))
    images = _parsed(paths[1], parsers[1])
    points = _parsed(paths[2], parsers[2]) if paths[2].is_file() else []
    for image in images:
        if image.camera not in cameras:
            raise InputError(
                f"{paths[1]}: {image.name} has camera {image.camera}, not in {paths[0]}; expected "
                "files of one model"
            )
    return ColmapModel(cameras, images, np.array(points, np.float64).reshape(-1, 3))


def _parsed(path: Path, parse: Callable[[bytes], Iterator[Parsed]]) -> list[Parsed]:
    content = _bytes(path)
    try:
        with prefix_errors(str(path)):
            return list(parse(content))
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is no whole file of a COLMAP model: {error}") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _camera(model: str, width: int, height: int, values: list[float]) -> ColmapCamera:
    names = PARAMETERS.get(model, "").split()
    if not names:
        raise InputError(f"camera model {model}; expected one of {', '.join(PARAMETERS)}")
    named = dict(zip(names, values, strict=True))
    if not all(abs(value) <= LARGEST for value in values):
        raise InputError(f"a camera has the parameters {named}; expected finite numbers")
    if "f" in named:
        focal = named.pop("f")
        named = {"fl_x": focal, "fl_y": focal, **named}
    return ColmapCamera(model, width, height, named)


def _image(name: str, camera: int, pose: list[float]) -> ColmapImage:
    """The picture of a `pose` of 7 numbers: quaternion and translation."""
    translation = pose[4:]
    if not all(abs(number) <= LARGEST for number in translation):
        raise InputError(f"{name} has the position {translation}; expected finite numbers")
    return ColmapImage(name, camera, np.column_stack([rotation_of(pose[:4], name), translation]))


def _binary_cameras(content: bytes) -> Iterator[tuple[int, ColmapCamera]]:
    (count,), at = struct.unpack_from("<Q", content), 8
    models = list(PARAMETERS)
    for _ in range(count):
        number, model, width, height = struct.unpack_from("<IiQQ", content, at)
        if not 0 <= model < len(models):
            raise InputError(f"camera {number} has model {model}; expected 0 to {len(models) - 1}")
        layout = f"<{len(PARAMETERS[models[model]].split())}d"
        values = struct.unpack_from(layout, content, at + 24)
        at += 24 + struct.calcsize(layout)
        yield number, _camera(models[model], width, height, list(values))


def _binary_images(content: bytes) -> Iterator[ColmapImage]:
    (count,), at = struct.unpack_from("<Q", content), 8
    for _ in range(count):
        _, *pose, camera = struct.unpack_from("<I7dI", content, at)
        end = content.index(b"\0", at + 64)
        name = content[at + 64 : end].decode()
        (points,) = struct.unpack_from("<Q", content, end + 1)
        at = end + 9 + 24 * points  # a point: x, y and the number of its 3D point
        if at > len(content):
            raise InputError(f"it ends within {name}")
        yield _image(name, camera, pose)


def _binary_points(content: bytes) -> Iterator[tuple[float, ...]]:
    (count,), at = struct.unpack_from("<Q", content), 8
    for _ in range(count):
        yield struct.unpack_from("<3d", content, at + 8)
        (track,) = struct.unpack_from("<Q", content, at + 43)
        at += 51 + 8 * track  # an entry: the number of a picture, and of the point in it
        if at > len(content):
            raise InputError("it ends within a point")


def _text_cameras(content: bytes) -> Iterator[tuple[int, ColmapCamera]]:
    for line in _lines(content):
        number, model, width, height, *values = line.split()
        camera = _camera(model, int(width), int(height), [float(value) for value in values])
        yield int(number), camera


def _text_images(content: bytes) -> Iterator[ColmapImage]:
    is_points = False
    for line in content.decode("utf-8-sig").splitlines():
        # The line after a picture's has its points. It may be empty, and some programs omit it.
        if is_points and (not line.strip() or _is_number(line.split()[-1])):
            is_points = False
        elif line.strip() and not line.lstrip().startswith("#"):
            _, *pose, camera, name = line.strip().split(maxsplit=9)
            yield _image(name, int(camera), [float(value) for value in pose])
            is_points = True


def _text_points(content: bytes) -> Iterator[tuple[float, ...]]:
    for line in _lines(content):
        yield tuple(float(value) for value in line.split(maxsplit=4)[1:4])


def _lines(content: bytes) -> list[str]:
    """The lines that are neither empty nor comments."""
    lines = content.decode("utf-8-sig").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
