"""Videos as numbered files in a folder.

    frame_00000.png    uint8 sRGB, with straight alpha if the background is transparent
    frame_00000.exr    float32: depth and opacity as Y; normals or linear colors as R, G, and B;
                       alpha as A, by which the colors are multiplied
    series.json        everything that the frames depend on; the same in a resumed video

A file is created only when it is complete, so an interrupted series contains only complete frames.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nerfmac.app.scenes.images import UNREADABLE
from nerfmac.app.video.encoding import alpha_options, encoder, file_url, first_line
from nerfmac.app.video.frames import FrameValues
from nerfmac.common import InputError, appearing, read_json, write_json
from nerfmac.config.rendering import RenderOptions

RECORD = "series.json"
FAST = 1  # zlib compression level of frames that are stored until their video is complete.
EXR_LAYOUTS = {1: ([0], "grayf32le"), 3: ([1, 2, 0], "gbrpf32le"), 4: ([1, 2, 0, 3], "gbrapf32le")}
"""Order of the channels in ffmpeg's planes and ffmpeg's pixel format, keyed by the number of
channels."""


def name_of(folder: Path, index: int, extension: str) -> Path:
    """Return the file path of the frame with an `index`, starting at 0."""
    return folder / f"frame_{index:05}.{extension}"


def begin(folder: Path, made_by: dict[str, Any], *, resume: bool) -> None:
    """Create a folder for a series with the record `made_by`, or resume the series in a folder."""
    record = folder / RECORD
    if not (resume and record.is_file()):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot create the folder {folder}: {error.strerror}") from error
        if any(folder.glob("frame_*.*")):
            raise InputError(
                f"the folder {folder} already contains frames; choose another folder or remove them"
            )
        try:
            write_json(record, made_by)
        except BaseException:
            with suppress(OSError):
                folder.rmdir()  # Only succeeds if it contains no other files.
            raise
        return
    if name := is_other(folder, made_by):
        raise InputError(
            f"{folder} contains frames that were rendered with another {name}; use the same "
            "arguments, choose another output, or start again with --overwrite"
        )


def is_other(folder: Path, made_by: dict[str, Any]) -> str:
    """Return the first key with different values in `made_by` and in the record in `folder`. If
    there is none or the folder has no record, the string is empty."""
    record = folder / RECORD
    old = read_json(record) if record.is_file() else made_by
    known = old if isinstance(old, dict) else {}
    return next((name for name in made_by if known.get(name) != made_by[name]), "")


def missing(folder: Path, count: int, extension: str) -> list[int]:
    """Return the indices, from 0 to `count` - 1, of the frames without a file."""
    return [index for index in range(count) if not name_of(folder, index, extension).is_file()]


def save_png(path: Path, frame: np.ndarray, effort: int = 6) -> None:
    """Write a uint8 image (h, w, 3), or (h, w, 4) with alpha, with a zlib compression level."""
    with appearing(path) as partial:
        try:
            Image.fromarray(frame).save(partial, compress_level=effort)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error


def read_png(path: Path) -> np.ndarray:
    """Read an image that `save_png` has written."""
    try:
        with Image.open(path, formats=("PNG",)) as image:
            return np.asarray(image)
    except UNREADABLE as error:
        raise InputError(f"cannot read {path}: {error}") from error


def save_exr(path: Path, options: RenderOptions, frame: FrameValues) -> None:
    """Write the values of a frame to an OpenEXR file."""
    values, opacity = frame.values, frame.opacity[..., None]
    if options.output == "rgb":
        values = _linear(values)
        if options.background_color is None:
            values = np.concatenate([values * opacity, opacity], axis=2)
    height, width = values.shape[:2]
    values = values.reshape(height, width, -1)
    order, layout = EXR_LAYOUTS[values.shape[2]]
    planes = values[..., order].transpose(2, 0, 1)
    source = ["-f", "rawvideo", "-pix_fmt", layout, "-s", f"{width}x{height}", "-i", "-"]
    codec = ["-c:v", "exr", "-format", "float", "-compression", "zip16", "-pix_fmt", layout]
    program = encoder("exr")
    alpha = alpha_options(program) if values.shape[2] == 4 else ()
    with appearing(path) as partial:
        command = [program, "-y", "-v", "error", *source, *alpha, *codec, file_url(partial)]
        done = subprocess.run(
            command, input=planes.astype("<f4").tobytes(), capture_output=True, check=False
        )
        if done.returncode:
            raise InputError(f"cannot write {path}; ffmpeg reports: {first_line(done.stderr)}")


def _linear(values: np.ndarray) -> np.ndarray:
    """Convert sRGB to linear light in host memory, as `geometry.color.srgb_to_linear`."""
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def resumed(
    folder: Path, count: int, missing_ones: Sequence[int], rendered: Iterator[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield all images of a series in order. Images with the indices `missing_ones` are taken from
    `rendered` and saved. The others are read from the folder."""
    lacking = set(missing_ones)
    for index in range(count):
        path = name_of(folder, index, "png")
        if index in lacking:
            image = next(rendered)
            save_png(path, image, FAST)
        else:
            image = read_png(path)
        yield image
