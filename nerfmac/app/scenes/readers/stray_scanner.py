"""Captures by the phone app Stray Scanner. Poses map camera to world coordinates with OpenCV axes.

A capture has a video `rgb.mp4`, the intrinsics matrix of its frames in `camera_matrix.csv`, and a
pose for each frame in `odometry.csv`, with the columns timestamp, frame, x, y, z, qx, qy, qz, and
qw. `depth` contains an image per frame with the depth along the optical axis in millimeters, 256 x
192 for frames of 1920 x 1440. `confidence` contains images with the values 0 to 2.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.scenes.depth_images import SENSOR_RANGE, depth_beside, existing
from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.placement import rigid, rotation_of
from nerfmac.app.scenes.posed_image import PosedImage, headers_of
from nerfmac.app.scenes.unpacked import unpacked
from nerfmac.common.checks import LARGEST, InputError, prefix_errors
from nerfmac.geometry.lenses import Lens

VIDEO, POSES, INTRINSICS = "rgb.mp4", "odometry.csv", "camera_matrix.csv"
COLUMNS = ("frame", "x", "y", "z", "qx", "qy", "qz", "qw")
MAX_FRAMES = 300
"""Maximum number of frames that are read from the video, evenly spaced. The video has 60 frames per
second, most of which show nearly the same."""
LONGEST_SIDE = 4096  # Maximum side of a frame in pixels, larger than the frames of any phone.
QUALITY = 95  # JPEG quality of the frames.
MILLIMETER = 1e-3

Array = npt.NDArray[np.float64]

log = logging.getLogger("nerfmac")


def is_stray_scanner(folder: Path) -> bool:
    """Return whether `folder` contains a capture by Stray Scanner."""
    return all((folder / name).is_file() for name in (POSES, INTRINSICS))


def read_stray_scanner(folder: Path) -> ParsedScene:
    """Read the scene of a Stray Scanner capture. Frames of the video are stored in the cache."""
    if not (folder / VIDEO).is_file():
        raise InputError(
            f"{folder} has no {VIDEO}; copy the whole folder that Stray Scanner has written"
        )
    rows = _poses(folder / POSES)
    numbers = sorted(rows)
    numbers = (
        [numbers[i * len(numbers) // MAX_FRAMES] for i in range(MAX_FRAMES)]
        if (len(numbers) > MAX_FRAMES)
        else numbers
    )
    name = folder.resolve().name
    frames = unpacked(folder / VIDEO, name, partial(_write_frames, folder / VIDEO, numbers))
    files = {int(path.stem): path for path in sorted(frames.glob("*.jpg"))}
    numbers = [number for number in numbers if number in files]
    if not numbers:
        raise InputError(f"{folder / VIDEO} has no frame with a pose in {folder / POSES}")
    headers, images = headers_of([files[number] for number in numbers]), []
    matrix = _numbers(folder / INTRINSICS, skipped=0)
    if matrix.shape != (3, 3):
        raise InputError(f"{folder / INTRINSICS} is not a 3x3 matrix; export the capture again")
    for number, header in zip(numbers, headers, strict=True):
        where = f"{folder / POSES}, frame {number}"
        with prefix_errors(str(folder / INTRINSICS)):
            focal = matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2]
            lens = Lens(header.width, header.height, *map(float, focal))
        confidence = existing(folder / "confidence" / f"{number:06d}.png")
        depth = depth_beside(
            *(folder / "depth", f"{number:06d}"),
            unit=MILLIMETER,
            confidence=confidence,
            farthest=SENSOR_RANGE,
        )
        pose = rows[number]
        posed = PosedImage.of(files[number], header, lens=lens, pose=pose, where=where)
        images.append(posed._replace(depth=depth))
    return ParsedScene(str(folder), folder, images)


def _poses(path: Path) -> dict[int, Array]:
    """Return the camera-to-world poses (3, 4) with OpenGL axes, keyed by frame number."""
    with path.open(encoding="utf-8", errors="replace") as file:
        names = [name.strip() for name in file.readline().split(",")]
    if missing := [name for name in COLUMNS if name not in names]:
        raise InputError(f"{path} has no column {missing[0]}; expected {', '.join(COLUMNS)}")
    table = _numbers(path, skipped=1)
    frame, x, y, z, qx, qy, qz, qw = (table[:, names.index(name)] for name in COLUMNS)
    poses = {}
    for index, number in enumerate(frame.astype(int).tolist()):
        where = f"{path}, frame {number}"
        rotation = rotation_of((qw[index], qx[index], qy[index], qz[index]), where)
        pose = np.column_stack([rotation, (x[index], y[index], z[index])])
        poses[number] = rigid(pose * (1.0, -1.0, -1.0, 1.0), where)
    return poses


def _numbers(path: Path, skipped: int) -> Array:
    """Return the numbers (rows, columns) in a CSV file, without the first `skipped` rows."""
    try:
        values = np.loadtxt(path, delimiter=",", skiprows=skipped, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a CSV file of numbers: {error}") from error
    if not len(values) or not (np.abs(values) <= LARGEST).all():
        raise InputError(f"{path} contains no numbers, or a number that is not finite")
    return values


def _write_frames(video: Path, numbers: Sequence[int], folder: Path) -> None:
    # `nerfmac.app.capture` imports the readers, so it is imported when it is needed.
    from nerfmac.app.capture.video import full_frames, open_video

    count = open_video(video).frames
    chosen = [number for number in numbers if 0 <= number < count]
    log.info("extracting %d of %d frames of %s", len(chosen), count, video)
    for number, pixels in zip(chosen, full_frames(video, chosen, LONGEST_SIDE), strict=False):
        Image.fromarray(pixels).save(folder / f"{number:06d}.jpg", quality=QUALITY, subsampling=0)
