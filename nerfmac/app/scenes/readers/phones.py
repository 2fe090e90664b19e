"""Captures by the phone apps Record3D and Polycam. Poses map camera to world coordinates with
OpenGL axes.

A Record3D export has a JSON file `metadata` or `metadata.json`, and an image folder. A pose
consists of a quaternion x, y, z, w and a position. `K` is in column-major order for images of size
`w` x `h`. The file name of an image is the index of its pose. Poses without an image are skipped,
because phones write more poses than images.

Polycam raw data has a JSON file per image in `keyframes/cameras`, and `keyframes/images`. The keys
t_00 to t_23 contain the pose matrix, row by row. The folders `corrected_cameras` and
`corrected_images` are preferred, because their poses are more consistent.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import Header, is_image
from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.placement import rigid, rotation_of
from nerfmac.app.scenes.posed_image import PosedImage, headers_of
from nerfmac.common.checks import InputError, prefix_errors
from nerfmac.common.json_reader import Fields, read_fields
from nerfmac.geometry.lenses import Lens

FOLDERS = ("rgbd", "rgb", "images", "color")
FRAME_INTRINSICS = "perFrameIntrinsicCoeffs"
"""Key in newer files. Its value contains [fl_x, fl_y, cx, cy] for each pose."""


def metadata_of(folder: Path) -> Path | None:
    """Return the metadata file of the Record3D capture in `folder`, or None."""
    for name in ("metadata", "metadata.json"):
        path = folder / name
        if path.is_file() and b'"poses"' in path.read_bytes():
            return path
    return None


def read_record3d(path: Path) -> ParsedScene:
    """Read the scene of a Record3D metadata file."""
    file = read_fields(path)
    poses, files = file.rows("poses", 7), _images(path.parent)
    numbers = [number for number in sorted(files) if number < len(poses)]
    if not numbers:
        raise InputError(
            f"{path} has {len(poses)} poses, but the folders {', '.join(FOLDERS)} in {path.parent} "
            f"contain no image whose name is a number below {len(poses)}"
        )
    headers, images = headers_of([files[number] for number in numbers]), []
    for number, header in zip(numbers, headers, strict=True):
        where, image = f"{path}, pose {number}", files[number]
        lens, pose = _lens(file, number, header, where), _pose(poses[number], where)
        name = f"{number:06d}{image.suffix}"  # Zero-padded, so that names sort by number.
        images.append(PosedImage.of(image, header, lens=lens, pose=pose, where=where, name=name))
    return ParsedScene(str(path.parent), path.parent, images)


def _images(folder: Path) -> dict[int, Path]:
    """Return the images in the first folder in FOLDERS that contains any, keyed by number."""
    for name in FOLDERS:
        image_folder = folder / name
        files = sorted(image_folder.iterdir()) if image_folder.is_dir() else []
        found = {
            int(path.stem): path for path in files if is_image(path.name) and path.stem.isdecimal()
        }
        if found:
            return found
    return {}


def _pose(row: tuple[float, ...], where: str) -> npt.NDArray[np.float64]:
    x, y, z, w = row[:4]
    return np.column_stack([rotation_of((w, x, y, z), where), row[4:]])


def _lens(file: Fields, number: int, image: Header, where: str) -> Lens:
    if FRAME_INTRINSICS in file:
        rows = file.rows(FRAME_INTRINSICS, 4)
        if number >= len(rows):
            raise InputError(
                f"{where}: {FRAME_INTRINSICS} has only {len(rows)} rows; expected a row per pose"
            )
        fl_x, fl_y, cx, cy = rows[number]
    else:
        fl_x, _, _, _, fl_y, _, cx, cy, _ = file.numbers("K", 9)
    width, height = file.count("w", image.width), file.count("h", image.height)
    with prefix_errors(where):
        return Lens(width, height, fl_x, fl_y, cx, cy)


KEYFRAME_FOLDERS = (("corrected_cameras", "corrected_images"), ("cameras", "images"))
"""Folders of cameras and images, in order of preference."""


def keyframes_of(folder: Path) -> tuple[Path, Path] | None:
    """Return the camera folder and the image folder of a Polycam capture in `folder`, or None."""
    for parent in (folder / "keyframes", folder):
        for cameras, images in KEYFRAME_FOLDERS:
            if (parent / images).is_dir() and any((parent / cameras).glob("*.json")):
                return parent / cameras, parent / images
    return None


def read_polycam(folder: Path, cameras: Path, image_folder: Path) -> ParsedScene:
    """Read a Polycam scene, in the coordinates of Polycam, with the folders from `keyframes_of`."""
    files = [read_fields(path) for path in sorted(cameras.glob("*.json"))]
    names = [Path(file.where).stem for file in files]
    found = ImageSearch(image_folder).existing(names, str(cameras))
    headers, images = headers_of([path for _, path in found]), []
    for (index, path), header in zip(found, headers, strict=True):
        file = files[index]
        rows = [[file.number(f"t_{i}{j}") for j in range(4)] for i in range(3)]
        pose, lens = rigid(np.array(rows), f"{file.where}: t_00 to t_23"), _lens_of(file, header)
        images.append(PosedImage.of(path, header, lens=lens, pose=pose, where=file.where))
    return ParsedScene(str(folder), folder, images)


def _lens_of(file: Fields, image: Header) -> Lens:
    width, height = file.count("width", image.width), file.count("height", image.height)
    fl_x, fl_y = file.number("fx", above=0), file.number("fy", above=0)
    return Lens(width, height, fl_x, fl_y, file.number("cx"), file.number("cy"))
