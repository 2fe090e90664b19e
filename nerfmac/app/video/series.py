"""A video as numbered files in a folder: PNG images, or values as OpenEXR or NumPy files.

    frame_00000.png    uint8 sRGB, with straight alpha where the background is transparent
    frame_00000.exr    float32: depth and opacity as the channel Y; normals as R, G and B; colors
                       as linear R, G and B. With a transparent background colors also have A, and
                       are multiplied by it, as OpenEXR expects
    frame_00000.npz    float32 arrays: one named after the output (`rgb` is sRGB), and `opacity`;
                       `pose` (3, 4); `lens`: focal lengths and principal point in pixels
    series.json        everything that the frames depend on; a resumed video must agree with it

A file appears under its name only when it is complete, so an interrupted series holds whole frames.
"""

from __future__ import annotations

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
from nerfmac.app.video.options import RenderOptions
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, read_json, write_json
from nerfmac.geometry.cameras import Camera

FORMATS = ("png", "exr", "npz")

RECORD = "series.json"
FAST = 1
"""zlib's effort for frames that are kept until their video is complete."""

EXR_LAYOUTS = {1: ([0], "grayf32le"), 3: ([1, 2, 0], "gbrpf32le"), 4: ([1, 2, 0, 3], "gbrapf32le")}
"""Number of channels -> their order in ffmpeg's planes, and ffmpeg's name of that pixel format."""


def name_of(folder: Path, index: int, ending: str) -> Path:
    """The path of the file of frame `index`, counted from 0; `ending` is its format."""
    return folder / f"frame_{index:05}.{ending}"


def make_series(folder: Path) -> None:
    """Make the `folder`. Raises `InputError` if it cannot be made or already holds frames."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {folder} cannot be made: {error.strerror}") from error
    if any(folder.glob("frame_*.*")):
        raise InputError(f"folder {folder} already holds frames; name another or remove them")


def begin(folder: Path, made_by: dict[str, Any], *, resume: bool) -> None:
    """Make the `folder` of a series with the record `made_by`, or resume the series in it.

    Raises `InputError` as `make_series` does, and if the series to resume has another record.
    """
    record = folder / RECORD
    if not (resume and record.is_file()):
        make_series(folder)
        try:
            write_json(record, made_by)
        except BaseException:
            with suppress(OSError):
                folder.rmdir()  # unless it contains other files
            raise
        return
    if name := is_other(folder, made_by):
        raise InputError(
            f"{folder} holds frames that were made with another {name}; resume them with the same "
            "arguments, name another output, or start anew with --overwrite"
        )


def is_other(folder: Path, made_by: dict[str, Any]) -> str:
    """The first part of `made_by` in which the record in `folder` differs; empty if none does."""
    record = folder / RECORD
    old = read_json(record) if record.is_file() else made_by
    known = old if isinstance(old, dict) else {}
    return next((name for name in made_by if known.get(name) != made_by[name]), "")


def check_format(form: str) -> None:
    """Raise `InputError` if `form` is not in `FORMATS`, or is exr and no ffmpeg can encode it."""
    checks.choice("form", form, FORMATS)
    if form == "exr":
        encoder("exr")


def missing(folder: Path, count: int, ending: str) -> list[int]:
    """Indices of the frames, out of `count`, that have no file yet."""
    return [index for index in range(count) if not name_of(folder, index, ending).is_file()]


def save_png(path: Path, frame: np.ndarray, effort: int = 6) -> None:
    """Write a image, uint8 (h, w, 3), or (h, w, 4) with alpha, as PNG.

    `effort` is zlib's, from 0 to 9; the pixels do not depend on it.
    Raises `InputError` if the file cannot be written.
    """
    with appearing(path) as partial:
        try:
            Image.fromarray(frame).save(partial, compress_level=effort)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error


def read_png(path: Path) -> np.ndarray:
    """The image in a file of `save_png`. Raises `InputError` if it cannot be read."""
    try:
        with Image.open(path, formats=("PNG",)) as image:
            return np.asarray(image)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def save_npz(path: Path, output: str, frame: FrameValues, camera: Camera) -> None:
    """Write a frame's values, named `output`, its opacity and its camera as an .npz.

    Raises `InputError` if the file cannot be written.
    """
    lens = np.array([camera.lens.fl_x, camera.lens.fl_y, camera.lens.cx, camera.lens.cy])
    arrays: dict[str, Any] = {output: frame.values, "opacity": frame.opacity}
    arrays |= {"pose": camera.pose, "lens": lens}
    with appearing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def save_exr(path: Path, options: RenderOptions, frame: FrameValues) -> None:
    """Write the values of a frame rendered with `options`, as OpenEXR.

    Raises `InputError` if no ffmpeg can encode OpenEXR, or the file cannot be written.
    """
    values, opacity = frame.values, frame.opacity[..., None]
    if options.output == "rgb":
        values = _linear(values)
        if options.background is None:
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
            raise InputError(f"{path} cannot be written, ffmpeg said: {first_line(done.stderr)}")


def _linear(values: np.ndarray) -> np.ndarray:
    """Linear light of sRGB `values`: `geometry.color.srgb_to_linear` on the host."""
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def resumed(
    folder: Path, count: int, missing_ones: Sequence[int], rendered: Iterator[np.ndarray]
) -> Iterator[np.ndarray]:
    """All `count` images in order: those in `folder`, and `rendered` for the missing ones.

    Saves each rendered image in `folder`.
    """
    lacking = set(missing_ones)
    for index in range(count):
        path = name_of(folder, index, "png")
        if index in lacking:
            image = next(rendered)
            save_png(path, image, FAST)
        else:
            image = read_png(path)
        yield image
