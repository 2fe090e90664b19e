"""A COLMAP model: `cameras`, `images` and `points3D`, each a .bin or a .txt file.

The layout is that of COLMAP's documentation ("Output Format"). Poses map world to camera with
OpenCV's axes: x right, y down, z forwards; the quaternion is (w, x, y, z). Pixel positions are this
package's: the centre of the top left pixel is (0.5, 0.5). The files `rigs` and `frames` of newer
models add nothing here, for `images` still has the pose of every picture.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import LARGEST, InputError
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
"""The camera models in the order of their numbers in binary files, and what each one's parameters
are called here; d1 to d3 are the coefficients of FULL_OPENCV's denominator."""

NAMES = ("cameras", "images", "points3D")

Read = TypeVar("Read")

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
    """Whether `folder` holds the cameras and pictures of a model, in either form."""
    return any(all((folder / f"{n}.{e}").is_file() for n in NAMES[:2]) for e in ("bin", "txt"))


def count_images(folder: Path) -> int:
    """How many pictures the model in `folder` has; binary models are not read for it."""
    path = folder / "images.bin"
    if path.is_file():
        return int.from_bytes(_bytes(path)[:8], "little")
    return len(read_model(folder).images)


def read_model(folder: Path) -> ColmapModel:
    """The model in `folder`; the binary files if both forms are there. Points may be absent.

    Raises InputError that names the file if it is cut short or is no such file, and for a number
    that is not finite.
    """
    ending = "bin" if (folder / "cameras.bin").is_file() else "txt"
    cameras, images, points = (folder / f"{name}.{ending}" for name in NAMES)
    is_binary = ending == "bin"
    given = dict(_read(cameras, _binary_cameras if is_binary else _text_cameras))
    pictures = list(_read(images, _binary_images if is_binary else _text_images))
    sparse = _read(points, _binary_points if is_binary else _text_points)
    for image in pictures:
        if image.camera not in given:
            raise InputError(f"{images}: {image.name} has camera {image.camera}, not in {cameras}")
    return ColmapModel(given, pictures, np.array(sparse, np.float64).reshape(-1, 3))


def _read(path: Path, parse: Callable[[bytes], Iterator[Read]]) -> list[Read]:
    if path.stem == "points3D" and not path.is_file():
        return []
    content = _bytes(path)
    try:
        return list(parse(content))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except UNREADABLE as error:
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


def _image(
    name: str, camera: int, quaternion: list[float], translation: list[float]
) -> ColmapImage:
    if not all(abs(each) <= LARGEST for each in translation):
        raise InputError(f"{name} has the position {translation}; expected finite numbers")
    return ColmapImage(name, camera, np.column_stack([rotation_of(quaternion, name), translation]))


def _binary_cameras(content: bytes) -> Iterator[tuple[int, ColmapCamera]]:
    (count,), at = struct.unpack_from("<Q", content), 8
    models = list(PARAMETERS)
    for _ in range(count):
        number, model, width, height = struct.unpack_from("<IiQQ", content, at)
        if not 0 <= model < len(models):
            raise InputError(f"camera {number} has model {model}; expected 0 to {len(models) - 1}")
        form = f"<{len(PARAMETERS[models[model]].split())}d"
        values = struct.unpack_from(form, content, at + 24)
        at += 24 + struct.calcsize(form)
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
        yield _image(name, camera, pose[:4], pose[4:])


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
        # Its points follow a picture: a line that may be empty, and that some programs leave out.
        if is_points and (not line.strip() or _is_number(line.split()[-1])):
            is_points = False
        elif line.strip() and not _is_comment(line):
            _, *pose, camera, name = line.strip().split(maxsplit=9)
            values = [float(value) for value in pose]
            yield _image(name, int(camera), values[:4], values[4:])
            is_points = True


def _text_points(content: bytes) -> Iterator[tuple[float, ...]]:
    for line in _lines(content):
        yield tuple(float(value) for value in line.split(maxsplit=4)[1:4])


def _lines(content: bytes) -> Iterator[str]:
    for line in content.decode("utf-8-sig").splitlines():
        if line.strip() and not _is_comment(line):
            yield line


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
