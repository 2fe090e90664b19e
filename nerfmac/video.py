"""Write rendered frames to a file: H.264 video, or numbered PNGs.

Frames are uint8 `(h, w, 3)` sRGB arrays and are taken one at a time as they are rendered, so any
generator will do, also one with a progress bar around it. A file appears under its name only when
it is complete: an interrupted render leaves none, and an older file stays.

Video goes through the ffmpeg of `imageio-ffmpeg` in a process of its own. Pixels are 4:2:0, the one
layout that every player shows; it needs an even size. The colour matrix is BT.709. The file names
it, since players would otherwise guess, and guess differently for small and large frames.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.files import appearing

Send = Callable[[np.ndarray], None]

QUALITY = 18
"""H.264's constant rate factor: 0 is lossless, 23 its default; 18 is hard to tell from lossless."""


def write_video(path: Path | str, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write `frames`, uint8 `(h, w, 3)` of one even size, to an MP4 of `fps` frames a second.

    Raises `InputError` for a name that does not end in .mp4, frames of another type, size or of odd
    size, no frames, and whatever keeps the file from being written.
    """
    path = Path(path)
    if path.suffix.lower() != ".mp4":
        raise InputError(f"{path} is no video name; expected one that ends in .mp4")
    checks.number("fps", fps, low=1)
    with appearing(path) as partial:
        frames = iter(frames)
        first = next(frames, None)
        if first is None:
            raise InputError(f"there are no frames to write to {path}")
        _check(first, 0, np.shape(first))
        height, width = first.shape[:2]
        if height % 2 or width % 2:
            raise InputError(f"frames are {width}x{height}; H.264 needs an even width and height")
        with _encoder(partial, width, height, fps) as send:
            for index, frame in enumerate(chain([first], frames)):
                _check(frame, index, first.shape)
                send(frame)


def write_frames(folder: Path | str, frames: Iterable[np.ndarray]) -> None:
    """Write `frames`, uint8 `(h, w, 3)`, to `folder` as frame_00000.png and so on.

    The folder is made if absent; its parent is not. Raises `InputError` if it already holds frames,
    which a shorter series would leave half replaced, and whatever keeps a file from being written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {folder} cannot be made: {error.strerror}") from error
    if any(folder.glob("frame_*.png")):
        raise InputError(f"folder {folder} already holds frames; name another or remove them")
    for index, frame in enumerate(frames):
        _check(frame, index, np.shape(frame))
        path = folder / f"frame_{index:05}.png"
        with appearing(path) as partial:
            try:
                Image.fromarray(frame).save(partial)
            except OSError as error:
                raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _check(frame: np.ndarray, index: int, shape: tuple[int, ...]) -> None:
    """Raise unless `frame` is a uint8 `(h, w, 3)` array of `shape`."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8:
        kind = getattr(frame, "dtype", type(frame).__name__)
        raise InputError(f"frame {index} is {kind}; expected a NumPy array of uint8")
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise InputError(f"frame {index} has shape {frame.shape}; expected (height, width, 3)")
    if frame.shape != shape:
        raise InputError(f"frame {index} has shape {frame.shape}, but frame 0 has {shape}")


def _options(width: int, height: int, fps: float) -> list[str]:
    """Return ffmpeg's options between its own name and the file's: raw RGB in, H.264 out."""
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    matrix = "scale=out_color_matrix=bt709:out_range=tv"
    label = "setparams=color_primaries=bt709:color_trc=iec61966-2-1"  # sRGB's
    colour = ["-vf", f"{matrix},{label}", "-pix_fmt", "yuv420p"]
    codec = ["-c:v", "libx264", "-crf", str(QUALITY), "-preset", "medium"]
    return ["-y", "-v", "error", *source, "-i", "-", *colour, *codec, "-movflags", "+faststart"]


@contextmanager
def _encoder(path: Path, width: int, height: int, fps: float) -> Iterator[Send]:
    """Run ffmpeg: the frames sent are encoded to `path`, which is complete on leaving.

    Raises `InputError` with ffmpeg's own words when it fails. An exception inside stops it.
    """
    import imageio_ffmpeg  # here, so that only videos wait for the import

    command = [imageio_ffmpeg.get_ffmpeg_exe(), *_options(width, height, fps), str(path)]
    with tempfile.TemporaryFile() as log:
        # In its own process group, so that Ctrl-C reaches only us; we then stop ffmpeg.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0
        )
        pipe = process.stdin
        assert pipe is not None

        def send(frame: np.ndarray) -> None:
            with suppress(BrokenPipeError):
                pipe.write(np.ascontiguousarray(frame).data)
                return
            finish()  # ffmpeg has given up: its exit code and log tell why

        def finish() -> None:
            process.communicate()
            if process.returncode != 0:
                log.seek(0)
                words = log.read().decode(errors="replace").strip()
                words = words or f"exit code {process.returncode}"
                raise InputError(f"the video cannot be written, ffmpeg said: {words}")

        try:
            yield send
            finish()
        finally:
            process.kill()
            process.communicate()
