"""Captures by the phone app Stray Scanner. Poses map camera to world coordinates with OpenCV axes.

A capture has a video `rgb.mp4`, the intrinsics matrix of its frames in `camera_matrix.csv`, and a
pose for each frame in `odometry.csv`, with the columns timestamp, frame, x, y, z, qx, qy, qz, and
qw. `depth` contains an image per frame with the depth along the optical axis in millimeters, 256 x
192 for frames of 1920 x 1440. `confidence` contains images with the values 0 to 2.
"""

import logging
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.depth_images import SENSOR_RANGE, depth_beside, existing
from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.placement import rigid, rotation_of
from nerfmac.app.scenes.posed_image import PosedImage, headers_of
from nerfmac.app.scenes.unpacked import unpacked
from nerfmac.common import LARGEST, InputError, prefix_errors
from nerfmac.geometry import Lens

VIDEO, POSES, INTRINSICS = "rgb.mp4", "odometry.csv", "camera_matrix.csv"
COLUMNS = ("frame", "x", "y", "z", "qx", "qy", "qz", "qw")
MAX_FRAMES = 300
"""Maximum number of frames that are read from the video, evenly spaced. Videos have 60 frames per
second, most of which show nearly the same."""
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
    step = -(-(max(rows) + 1) // MAX_FRAMES)
    write = partial(_write_frames, folder / VIDEO, step)
    frames = unpacked(folder / VIDEO, folder.resolve().name, write)
    files = {int(path.stem): path for path in frames.glob("*.jpg")}
    numbers = sorted(rows)
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


def _write_frames(video: Path, step: int, folder: Path) -> None:
    """Write the frames 0, `step`, 2 `step`, and so on of a video to a folder."""
    import imageio_ffmpeg  # Imported lazily: only videos require it.

    log.info("extracting frames of %s", video)
    # The color matrix and the range are those of JPEG files.
    filters = f"select='not(mod(n,{step}))',scale=out_color_matrix=bt601:out_range=full"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", f"file:{video}", "-an"]
    command += ["-vf", f"{filters},format=yuvj444p", "-fps_mode", "passthrough", "-q:v", "1"]
    command += ["-qmin", "1", "-start_number", "0", str(folder / "%06d.jpg")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    files = sorted(folder.glob("*.jpg"), reverse=True)  # Each new number is not used yet.
    if not files:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise InputError(
            f"cannot decode {video}: {' '.join(reason)}; copy the capture from the phone again"
        )
    for file in files:
        file.rename(folder / f"{int(file.stem) * step:06d}.jpg")
