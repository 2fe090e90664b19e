"""Reading of COLMAP models, as in COLMAP's "Output Format": the files `cameras`, `images`, and
`points3D`, all .bin or all .txt. Poses map world to camera coordinates with OpenCV axes: x right, y
down, z forward. Quaternions are (w, x, y, z). The center of the top left pixel is (0.5, 0.5)."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nerfmac.app.scenes.parsed_scene import OPENCV, rotation_of
from nerfmac.app.scenes.readers.intrinsics import PARAMETERS, READ, is_fisheye_model
from nerfmac.common import LARGEST, Float64Array, InputError, Int64Array, prefix_errors
from nerfmac.geometry import Lens

Parsed = TypeVar("Parsed")

Point = tuple[int, list[float], float]
"""COLMAP ID, position (x, y, z), and mean reprojection error in pixels of a sparse point."""

SHOWN = np.dtype([("pixel", "<f8", 2), ("point", "<i8")])
"""Binary layout of an observation: its pixel position, and the ID of its 3D point or -1."""
UNREADABLE = (struct.error, UnicodeDecodeError, ValueError, IndexError, OverflowError)


class ColmapCamera(NamedTuple):
    """COLMAP camera: camera model, image size in pixels, and parameters keyed by name."""

    model: str
    width: int
    height: int
    parameters: dict[str, float]

    def lens(self, where: str) -> Lens:
        """Convert the camera to camera intrinsics. The denominator of FULL_OPENCV must be 1.
        `where` is the position of the camera in the scene files, for error messages."""
        parameters: dict[str, Any] = dict(self.parameters)
        denominator = [parameters.pop(name, 0.0) for name in ("d1", "d2", "d3")]
        model = f"{self.model}{' with a denominator' * any(denominator)}"
        is_fisheye = is_fisheye_model(model, where)
        with prefix_errors(where):
            return Lens(self.width, self.height, **parameters, is_fisheye=is_fisheye)


class ColmapImage(NamedTuple):
    """Registered image with its name, the ID of its camera, and its world-to-camera pose (3, 4).
    `pixels` (n, 2) are the image positions of observed sparse points, with x right and y down.
    `points` (n,) are the IDs of these points."""

    name: str
    camera: int
    pose: Float64Array
    pixels: Float64Array = np.zeros((0, 2))
    points: Int64Array = np.zeros(0, np.int64)

    @property
    def camera_to_file(self) -> Float64Array:
        """Camera-to-world pose (3, 4) with OpenGL camera axes."""
        rotation = self.pose[:, :3].T
        return np.column_stack([rotation, -rotation @ self.pose[:, 3]]) * OPENCV


class ColmapModel(NamedTuple):
    """Cameras by ID, registered images, and positions (n, 3) of sparse points. `numbers` (n,)
    contains the IDs of the points, and `errors` (n,) their mean reprojection errors in pixels."""

    cameras: dict[int, ColmapCamera]
    images: list[ColmapImage]
    points: Float64Array
    numbers: Int64Array = np.zeros(0, np.int64)
    errors: Float64Array = np.zeros(0)


def count_images(folder: Path) -> int:
    """Return the number of images in a model, from the first bytes of a binary file."""
    path = folder / "images.bin"
    if path.is_file():
        return int.from_bytes(_bytes(path)[:8], "little")
    return len(read_model(folder).images)


def read_model(folder: Path) -> ColmapModel:
    """Read a COLMAP model. Binary files are preferred. The file `points3D` may be missing."""
    if (folder / "cameras.bin").is_file():
        extension, parsers = "bin", (_binary_cameras, _binary_images, _binary_points)
    else:
        extension, parsers = "txt", (_text_cameras, _text_images, _text_points)
    paths = [folder / f"{name}.{extension}" for name in ("cameras", "images", "points3D")]
    cameras = dict(_parsed(paths[0], parsers[0]))
    images = _parsed(paths[1], parsers[1])
    rows = _parsed(paths[2], parsers[2]) if paths[2].is_file() else []
    points = np.array([position for _, position, _ in rows], np.float64).reshape(-1, 3)
    numbers = np.array([number for number, _, _ in rows], np.int64)
    errors = np.array([error for _, _, error in rows], np.float64)
    for image in images:
        if image.camera not in cameras:
            missing = f"{image.name} refers to camera {image.camera}, which is not in {paths[0]}"
            raise InputError(f"{paths[1]}: {missing}; the files must belong to the same model")
    return ColmapModel(cameras, images, points, numbers, errors)


def _parsed(path: Path, parse: Callable[[bytes], Iterator[Parsed]]) -> list[Parsed]:
    content = _bytes(path)
    try:
        with prefix_errors(str(path)):
            return list(parse(content))
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a complete file of a COLMAP model: {error}; copy or export it again"
        ) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _camera(model: str, width: int, height: int, values: list[float]) -> ColmapCamera:
    if min(width, height) < 1:
        raise InputError(f"a camera has the image size {width}x{height}; expected at least 1x1")
    # `ColmapCamera.lens` refuses the other models.
    named = dict(zip(PARAMETERS.get(model, "").split(), values, strict=model in READ))
    if not all(abs(value) <= LARGEST for value in values):
        raise InputError(f"a camera has the parameters {named}; expected finite numbers")
    if "f" in named:
        focal = named.pop("f")
        named = {"fl_x": focal, "fl_y": focal, **named}
    return ColmapCamera(model, width, height, named)


def _image(
    name: str, camera: int, pose: list[float], pixels: Float64Array, points: Int64Array
) -> ColmapImage:
    """Create an image from a quaternion and a translation. Drop observations with the ID -1."""
    translation = pose[4:]
    if not all(abs(number) <= LARGEST for number in translation):
        raise InputError(f"{name} has the position {translation}; expected finite numbers")
    matrix = np.column_stack([rotation_of(pose[:4], name), translation])
    is_shown = (points >= 0) & (np.abs(pixels) <= LARGEST).all(axis=1)
    return ColmapImage(name, camera, matrix, pixels[is_shown], points[is_shown])


def _point(number: int, position: list[float], error: float) -> Point:
    if not 0 <= number < 2**63 or len(position) != 3:
        found = f"point {number} has the position {position}"
        raise InputError(f"{found}; expected a number below 2^63 and x, y, z")
    return number, position, error


def _binary_cameras(content: bytes) -> Iterator[tuple[int, ColmapCamera]]:
    (count,), at = struct.unpack_from("<Q", content), 8
    models = list(PARAMETERS)
    for _ in range(count):
        number, model, width, height = struct.unpack_from("<IiQQ", content, at)
        if not 0 <= model < len(models):
            expected = f"0 to {len(models) - 1}"
            raise InputError(f"camera {number} has model number {model}; expected {expected}")
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
        (count_shown,) = struct.unpack_from("<Q", content, end + 1)
        at = end + 9 + SHOWN.itemsize * count_shown
        if at > len(content):
            raise IndexError(f"the entry of image {name} is truncated")
        shown = np.frombuffer(content, SHOWN, count_shown, end + 9)
        yield _image(name, camera, pose, shown["pixel"], shown["point"])


def _binary_points(content: bytes) -> Iterator[Point]:
    (count,), at = struct.unpack_from("<Q", content), 8
    for _ in range(count):
        number, *position = struct.unpack_from("<Q3d", content, at)
        yield _point(number, position, struct.unpack_from("<d", content, at + 35)[0])
        (track,) = struct.unpack_from("<Q", content, at + 43)
        at += 51 + 8 * track  # Each track entry is an image ID and a point index.
        if at > len(content):
            raise IndexError("the entry of a point is truncated")


def _text_cameras(content: bytes) -> Iterator[tuple[int, ColmapCamera]]:
    for line in _lines(content):
        number, model, width, height, *values = line.split()
        camera = _camera(model, int(width), int(height), [float(value) for value in values])
        yield int(number), camera


def _text_images(content: bytes) -> Iterator[ColmapImage]:
    image: tuple[str, int, list[float]] | None = None
    for line in content.decode("utf-8-sig").splitlines():
        # The line after an image lists its points. The line may be empty, and some programs omit
        # it.
        if image and (not line.strip() or _is_number(line.split()[-1])):
            yield _image(*image, *_text_shown(line))
            image = None
        elif line.strip() and not line.lstrip().startswith("#"):
            if image:
                yield _image(*image, *_text_shown(""))
            _, *pose, camera, name = line.strip().split(maxsplit=9)
            image = name, int(camera), [float(value) for value in pose]
    if image:
        yield _image(*image, *_text_shown(""))


def _text_shown(line: str) -> tuple[Float64Array, Int64Array]:
    """Return the pixels (n, 2) and point IDs (n,) in the point list of an image."""
    table = np.array(line.split(), np.float64).reshape(-1, 3)
    return table[:, :2], table[:, 2].astype(np.int64)


def _text_points(content: bytes) -> Iterator[Point]:
    for line in _lines(content):
        number, *values = line.split(maxsplit=8)[:8]
        error = float(values[6]) if len(values) > 6 else 0.0  # Some programs write only positions.
        yield _point(int(number), [float(value) for value in values[:3]], error)


def _lines(content: bytes) -> list[str]:
    lines = content.decode("utf-8-sig").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
