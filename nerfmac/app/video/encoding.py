"""Write frames to a video: H.264 in MP4, VP9 in WebM, or an animated GIF.

Frames are uint8 `(h, w, 3)` sRGB arrays from any iterable, taken one at a time and encoded on a
thread of their own. A file appears under its name only when it is complete, so an interrupted video
leaves no file, and an older file stays.

The ffmpeg of `imageio-ffmpeg` encodes, in its own process. Pixels are 4:2:0, the one layout that
every player shows; it needs an even width and height. The color matrix is BT.709, and the file
says so: players would otherwise guess, differently for small and large frames. A GIF has a palette
of 256 colors per frame, and times in hundredths of a second.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import TypeVar

import numpy as np

from nerfmac.app.video.spatial import mark_spatial
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing
from nerfmac.common.installing import pip_install
from nerfmac.common.timeline import interval

Item = TypeVar("Item")
Send = Callable[[np.ndarray], None]

QUALITY = 18
"""H.264's constant rate factor: 0 is lossless, the default 23; 18 looks lossless to most."""

WEBM_QUALITY = 24
"""VP9's constant rate factor, 0 to 63, for about the same quality as `QUALITY`."""

HARDWARE_QUALITY = 65
"""Quality of the Mac's hardware encoder, 1 to 100, for about the same quality as `QUALITY`."""

VIDEOS = {".mp4": "libx264", ".webm": "libvpx-vp9", ".gif": "gif"}
"""File ending -> ffmpeg's encoder."""

HARDWARE = {".mp4": "h264_videotoolbox"}
"""File ending -> the Mac's hardware encoder, which leaves the CPU free. Only an ffmpeg for macOS
has it."""

MAX_FPS = {".gif": 50.0}
"""File ending -> largest frame rate; most players slow a faster GIF down."""

MAX_WAITING = 4
"""Largest number of items that wait for the background thread; it bounds memory."""


def write_video(
    path: Path | str,
    frames: Iterable[np.ndarray],
    fps: float,
    projection: str = "perspective",
    stereo: str | None = None,
) -> None:
    """Write `frames`, uint8 `(h, w, 3)` of one size, to a video of `fps` frames a second.

    The ending .mp4, .webm or .gif chooses the format. An MP4 tells players the `projection` and
    `stereo` of `RenderOptions` (`video.spatial`); the other formats cannot.

    Raises `InputError` for another ending, frames of another type or size, no frames, an
    unsupported frame rate, an odd width or height (GIF excepted), a missing encoder, and a file
    that cannot be written.
    """
    path = Path(path)
    check_video(path, fps)
    with appearing(path) as partial:
        frames = iter(frames)
        first = next(frames, None)
        if first is None:
            raise InputError(f"there are no frames to write to {path}")
        _check_frame(first, 0, np.shape(first))
        height, width = first.shape[:2]
        if (width, height) != even(path, (width, height)):
            raise InputError(f"frames are {width}x{height}; {path.suffix} needs an even size")
        with _encoder(partial, width, height, fps) as send, in_background(send) as submit:
            for index, frame in enumerate(chain([first], frames)):
                _check_frame(frame, index, first.shape)
                submit(frame)
        if path.suffix.lower() == ".mp4":
            mark_spatial(partial, projection, stereo)


def check_video(path: Path, fps: float) -> None:
    """Raise `InputError` if a video of that name and rate cannot be made here."""
    ending = path.suffix.lower()
    if ending not in VIDEOS:
        endings = ", ".join(VIDEOS)
        raise InputError(f"{path} is no video name; expected one that ends in one of: {endings}")
    checks.number("fps", fps, low=1, high=MAX_FPS.get(ending, inf))
    _program_and_codec(ending)


def even(path: Path, size: tuple[int, int]) -> tuple[int, int]:
    """The largest width and height within `size` that the video `path` can have."""
    if path.suffix.lower() == ".gif":
        return size
    return size[0] // 2 * 2, size[1] // 2 * 2


@contextmanager
def in_background(work: Callable[[Item], None]) -> Iterator[Callable[[Item], None]]:
    """Context manager that yields `submit(item)`: `work(item)` runs in order on one thread.

    Leaving it, also by an error or Ctrl-C, waits for all items. An error in `work` is raised by a
    later `submit`, or on leaving.
    """
    waiting: deque[Future[None]] = deque()

    def timed(item: Item) -> None:
        with interval("encode"):
            work(item)

    with ThreadPoolExecutor(1, "nerfmac encoder") as pool:

        def submit(item: Item) -> None:
            with interval("wait for the encoder"):
                while waiting and (waiting[0].done() or len(waiting) > MAX_WAITING):
                    waiting.popleft().result()
            waiting.append(pool.submit(timed, item))

        yield submit
        for future in waiting:
            future.result()


def _program_and_codec(ending: str) -> tuple[str, str]:
    """The ffmpeg and its encoder for a file ending. Raises `InputError`."""
    with suppress(KeyError, InputError):
        return encoder(HARDWARE[ending]), HARDWARE[ending]
    return encoder(VIDEOS[ending]), VIDEOS[ending]


def encoder(codec: str) -> str:
    """The path of an ffmpeg that has the encoder `codec`. Raises `InputError` without one."""
    try:
        import imageio_ffmpeg  # here, so that only videos wait for the import

        program = str(imageio_ffmpeg.get_ffmpeg_exe())
        encoders = _ask(program, "-encoders")
    except (ImportError, RuntimeError, OSError) as error:
        raise InputError(
            f"there is no ffmpeg to encode with; {pip_install('imageio-ffmpeg')} brings one, or "
            "IMAGEIO_FFMPEG_EXE may name yours"
        ) from error
    if f" {codec} " not in encoders:
        raise InputError(f"{program} has no encoder {codec}; IMAGEIO_FFMPEG_EXE may name another")
    return program


def alpha_options(program: str) -> tuple[str, ...]:
    """Options that tell ffmpeg that colors are multiplied by alpha already.

    A newer ffmpeg, such as 9.0, multiplies them itself for EXR files unless told otherwise. An
    older one, such as 7.0, does not, and lacks the option.
    """
    if "alpha_mode" not in _ask(program, "-h", "filter=setparams"):
        return ()
    return "-vf", "setparams=alpha_mode=premultiplied"


@cache
def _ask(program: str, *question: str) -> str:
    """The output of ffmpeg for the options `question`."""
    command = [program, "-v", "error", *question]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace")


def file_url(path: Path) -> str:
    """The `path` for ffmpeg. Without `file:`, ffmpeg reads a colon as the end of a protocol, and a
    leading minus as an option."""
    return f"file:{path}"


def first_line(log: bytes) -> str:
    """The first line of ffmpeg's `log`, which has the cause, without the component's name."""
    lines = log.decode(errors="replace").strip().splitlines() or [""]
    return re.sub(r"^\[[^]]*\] ", "", lines[0])


def _check_frame(frame: np.ndarray, index: int, shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless `frame` is a uint8 `(h, w, 3)` array of `shape`."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8:
        kind = getattr(frame, "dtype", type(frame).__name__)
        raise InputError(f"frame {index} is {kind}; expected a NumPy array of uint8")
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise InputError(f"frame {index} has shape {frame.shape}; expected (height, width, 3)")
    if frame.shape != shape:
        raise InputError(f"frame {index} has shape {frame.shape}, but frame 0 has {shape}")


def _options(ending: str, codec: str, width: int, height: int, fps: float) -> list[str]:
    """ffmpeg's options between the program and the output file: raw RGB in, video out."""
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    common = ["-y", "-v", "error", *source, "-i", "-"]
    if ending == ".gif":
        palette = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1"
        return [*common, "-filter_complex", palette]
    matrix = "scale=out_color_matrix=bt709:out_range=tv"
    label = "setparams=color_primaries=bt709:color_trc=iec61966-2-1"  # sRGB's
    common += ["-vf", f"{matrix},{label}", "-pix_fmt", "yuv420p", "-c:v", codec]
    if ending == ".webm":
        return [*common, "-crf", str(WEBM_QUALITY), "-b:v", "0", "-row-mt", "1"]
    quality = ["-crf", str(QUALITY), "-preset", "medium"]
    if codec == HARDWARE[ending]:
        quality = ["-q:v", str(HARDWARE_QUALITY), "-allow_sw", "1"]  # in software if it is busy
    return [*common, *quality, "-movflags", "+faststart"]


@contextmanager
def _encoder(path: Path, width: int, height: int, fps: float) -> Iterator[Send]:
    """Context manager that yields `send(frame)`; `path` is complete on leaving.

    Raises `InputError` with ffmpeg's message if ffmpeg fails. An exception inside stops ffmpeg.
    """
    ending = path.suffix.lower()
    program, codec = _program_and_codec(ending)
    command = [program, *_options(ending, codec, width, height, fps), file_url(path)]
    with tempfile.TemporaryFile() as log:
        # ffmpeg gets its own process group, so that Ctrl-C reaches only us; we then stop it.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0
        )
        pipe = process.stdin
        assert pipe is not None

        def send(frame: np.ndarray) -> None:
            with suppress(BrokenPipeError):
                pipe.write(np.ascontiguousarray(frame).data)
                return
            finish()  # ffmpeg has given up: its exit code and log have the cause

        def finish() -> None:
            process.communicate()
            if process.returncode != 0:
                log.seek(0)
                cause = first_line(log.read()) or f"exit code {process.returncode}"
                raise InputError(f"the video cannot be written, ffmpeg said: {cause}")

        try:
            yield send
            finish()
        finally:
            process.kill()
            process.communicate()
