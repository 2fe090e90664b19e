"""Write rendered frames to a video: H.264 in MP4, VP9 in WebM, or an animated GIF.

Frames are uint8 `(h, w, 3)` sRGB arrays and are taken one at a time as they are rendered, so any
generator will do, also one with a progress bar around it. A file appears under its name only when
it is complete: an interrupted render leaves none, and an older file stays.

Video goes through the ffmpeg of `imageio-ffmpeg` in a process of its own. Pixels are 4:2:0, the one
layout that every player shows; it needs an even size. The colour matrix is BT.709. The file names
it, since players would otherwise guess, and guess differently for small and large frames. A GIF has
a palette of 256 colours for each frame, and times in hundredths of a second.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path

import numpy as np

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, remove_abandoned
from nerfmac.film.background import in_background
from nerfmac.film.spatial import mark_spatial

Send = Callable[[np.ndarray], None]

QUALITY = 18
"""H.264's constant rate factor: 0 is lossless, 23 its default; 18 is hard to tell from lossless."""

WEBM_QUALITY = 24
"""VP9's, on a scale of its own up to 63, for about the same."""

HARDWARE_QUALITY = 65
"""Of the Mac's hardware encoder, up to 100: about the same again."""

VIDEOS = {".mp4": "libx264", ".webm": "libvpx-vp9", ".gif": "gif"}
"""ffmpeg's encoder by the name's ending."""

HARDWARE = {".mp4": "h264_videotoolbox"}
"""The Mac's own, which only an ffmpeg for macOS lists: it leaves the processor to other work."""

FASTEST = {".gif": 50.0}
"""Frames a second of players that show each; most take more than these for a mistake."""


def write_video(
    path: Path | str,
    frames: Iterable[np.ndarray],
    fps: float,
    projection: str = "perspective",
    stereo: str | None = None,
) -> None:
    """Write `frames`, uint8 `(h, w, 3)` of one size, to a video of `fps` frames a second.

    `projection` and `stereo`, as a `Shot` has them, are told to players by an MP4 (`film.spatial`);
    the other kinds cannot.

    The name's ending, .mp4, .webm or .gif, says which kind. Frames are encoded on a thread while
    the next are taken. Raises `InputError` for another ending, frames of another type or size, no
    frames, a rate or, but for a GIF, an odd size that it cannot have, no encoder for it, and
    whatever keeps the file from being written.
    """
    path = Path(path)
    check_video(path, fps)
    remove_abandoned(path.parent, path.name)
    with appearing(path) as partial:
        frames = iter(frames)
        first = next(frames, None)
        if first is None:
            raise InputError(f"there are no frames to write to {path}")
        check_frame(first, 0, np.shape(first))
        height, width = first.shape[:2]
        if (width, height) != even(path, (width, height)):
            raise InputError(f"frames are {width}x{height}; {path.suffix} needs an even size")
        with _encoder(partial, width, height, fps) as send, in_background(send) as give:
            for index, frame in enumerate(chain([first], frames)):
                check_frame(frame, index, first.shape)
                give(frame)
        if path.suffix.lower() == ".mp4":
            mark_spatial(partial, projection, stereo)


def check_video(path: Path, fps: float) -> None:
    """Raise `InputError` if no video of that name and rate can be made here."""
    kind = path.suffix.lower()
    if kind not in VIDEOS:
        endings = ", ".join(VIDEOS)
        raise InputError(f"{path} is no video name; expected one that ends in one of: {endings}")
    checks.number("fps", fps, low=1, high=FASTEST.get(kind, inf))
    _chosen(kind)


def even(path: Path, size: tuple[int, int]) -> tuple[int, int]:
    """The largest size within `size` that a video named `path` can have."""
    if path.suffix.lower() == ".gif":
        return size
    return size[0] // 2 * 2, size[1] // 2 * 2


def _chosen(kind: str) -> tuple[str, str]:
    """The ffmpeg and its encoder for videos of that `kind`. Raises `InputError`."""
    with suppress(KeyError, InputError):
        return encoder(HARDWARE[kind]), HARDWARE[kind]
    return encoder(VIDEOS[kind]), VIDEOS[kind]


def encoder(name: str) -> str:
    """The ffmpeg that can encode `name`. Raises `InputError` if there is none."""
    try:
        import imageio_ffmpeg  # here, so that only videos wait for the import

        program = str(imageio_ffmpeg.get_ffmpeg_exe())
        known = _encoders(program)
    except (ImportError, RuntimeError, OSError) as error:
        raise InputError(
            "there is no ffmpeg to encode with; pip install imageio-ffmpeg brings one, or "
            "IMAGEIO_FFMPEG_EXE may name yours"
        ) from error
    if f" {name} " not in known:
        raise InputError(f"{program} has no encoder {name}; IMAGEIO_FFMPEG_EXE may name another")
    return program


@cache
def _encoders(program: str) -> str:
    """ffmpeg's list of what it can encode."""
    return _told(program, "-encoders")


@cache
def alpha_options(program: str) -> tuple[str, ...]:
    """The options by which ffmpeg takes colours for multiplied by alpha already.

    A newer ffmpeg, such as 9.0, multiplies them itself for EXR files unless it is told. An older
    one, such as 7.0, does not, and lacks the option.
    """
    if "alpha_mode" not in _told(program, "-h", "filter=setparams"):
        return ()
    return "-vf", "setparams=alpha_mode=premultiplied"


def _told(program: str, *question: str) -> str:
    """What ffmpeg says of itself."""
    command = [program, "-v", "error", *question]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace")


def file_url(path: Path) -> str:
    """The `path` as ffmpeg takes it: without `file:`, it reads what precedes a colon as a protocol,
    and a leading minus as an option.
    """
    return f"file:{path}"


def said(log: bytes) -> str:
    """The first line of ffmpeg's `log`, which tells the cause, without who in ffmpeg says it."""
    lines = log.decode(errors="replace").strip().splitlines() or [""]
    return re.sub(r"^\[[^]]*\] ", "", lines[0])


def check_frame(frame: np.ndarray, index: int, shape: tuple[int, ...]) -> None:
    """Raise unless `frame` is a uint8 `(h, w, 3)` array of `shape`."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8:
        kind = getattr(frame, "dtype", type(frame).__name__)
        raise InputError(f"frame {index} is {kind}; expected a NumPy array of uint8")
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise InputError(f"frame {index} has shape {frame.shape}; expected (height, width, 3)")
    if frame.shape != shape:
        raise InputError(f"frame {index} has shape {frame.shape}, but frame 0 has {shape}")


def _options(kind: str, codec: str, width: int, height: int, fps: float) -> list[str]:
    """Return ffmpeg's options between its own name and the file's: raw RGB in, `kind` out."""
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    given = ["-y", "-v", "error", *source, "-i", "-"]
    if kind == ".gif":
        palette = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1"
        return [*given, "-filter_complex", palette]
    matrix = "scale=out_color_matrix=bt709:out_range=tv"
    label = "setparams=color_primaries=bt709:color_trc=iec61966-2-1"  # sRGB's
    colour = ["-vf", f"{matrix},{label}", "-pix_fmt", "yuv420p", "-c:v", codec]
    if kind == ".webm":
        return [*given, *colour, "-crf", str(WEBM_QUALITY), "-b:v", "0", "-row-mt", "1"]
    how = ["-crf", str(QUALITY), "-preset", "medium"]
    if codec == HARDWARE[kind]:
        how = ["-q:v", str(HARDWARE_QUALITY), "-allow_sw", "1"]  # in software where it is busy
    return [*given, *colour, *how, "-movflags", "+faststart"]


@contextmanager
def _encoder(path: Path, width: int, height: int, fps: float) -> Iterator[Send]:
    """Run ffmpeg: the frames sent are encoded to `path`, which is complete on leaving.

    Raises `InputError` with ffmpeg's own words when it fails. An exception inside stops it.
    """
    kind = path.suffix.lower()
    program, codec = _chosen(kind)
    command = [program, *_options(kind, codec, width, height, fps), file_url(path)]
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
                words = said(log.read()) or f"exit code {process.returncode}"
                raise InputError(f"the video cannot be written, ffmpeg said: {words}")

        try:
            yield send
            finish()
        finally:
            process.kill()
            process.communicate()
