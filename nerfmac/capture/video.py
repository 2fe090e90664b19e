"""Reading videos: how many frames one has, these small and grey, and some of them in full.

The ffmpeg of `imageio-ffmpeg` decodes them. It turns frames upright, as the video's rotation says,
and reads whatever phones write: H.264 and HEVC, fragmented or not.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError

Pixels = npt.NDArray[np.uint8]

ENDINGS = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".3gp", ".mpg", ".mpeg", ".mts")
"""Of files that are taken for videos, in small letters."""

GREY_SIZE = 640
"""The longer side of the frames that are compared: blur of a few pixels is still seen in them."""

MOST_COMPARED = 4000
"""Of a longer video only every second frame is compared, or every third, and so on."""


CUT = ("partial file", "corrupt input packet", "ended prematurely")
"""What ffmpeg says of a file whose end is missing."""
NO_INDEX = "moov atom not found"


class Video(NamedTuple):
    """A video: how many frames and `seconds` its file has, and how many seconds it `says` it has.

    Its end is missing if it `is_cut`; else only its sound may last longer than `seconds`.
    """

    path: Path
    frames: int
    seconds: float
    says: float
    is_cut: bool

    @property
    def step(self) -> int:
        """Every how manieth frame is compared."""
        return max(1, -(-self.frames // MOST_COMPARED))


def is_video(path: Path) -> bool:
    """Whether `path` is a file with a video's ending."""
    return path.suffix.lower() in ENDINGS and path.is_file()


def open_video(path: Path) -> Video:
    """The video in the file `path`; raises InputError if ffmpeg finds none in it."""
    with tempfile.TemporaryFile() as words:
        # Without `file:`, ffmpeg reads what precedes a colon as a protocol.
        command = [_ffmpeg(), "-v", "info", "-i", f"file:{path}", "-map", "0:v:0", "-c", "copy"]
        command += ["-f", "null", "-"]
        nothing = subprocess.DEVNULL
        code = subprocess.run(command, stdin=nothing, stdout=nothing, stderr=words).returncode
        words.seek(0)
        told = words.read().decode(errors="replace")
    counted = re.findall(r"frame=\s*(\d+)", told)
    if code != 0 or not counted or int(counted[-1]) == 0:
        raise _unreadable(path, told)
    seconds, says = _seconds("time=", told), _seconds("Duration:", told)
    return Video(path, int(counted[-1]), seconds, says, any(words in told for words in CUT))


def grey_frames(video: Video) -> Iterator[Pixels]:
    """Every `video.step`th frame, uint8 (h, w), its longer side `GREY_SIZE` pixels at most."""
    chosen = f"select='not(mod(n,{video.step}))'," if video.step > 1 else ""
    return _frames(video.path, chosen + _within(GREY_SIZE) + ":flags=area", "gray", "pgm")


def full_frames(path: Path, numbers: Sequence[int], longest: int) -> Iterator[Pixels]:
    """The frames with these `numbers`, ascending, uint8 (h, w, 3).

    A frame whose longer side has more than `longest` pixels is reduced to so many.
    """
    selection = f"select='{_any_of(numbers)}',{_within(longest)}:flags=area"
    return _frames(path, selection, "rgb24", "ppm")


def _any_of(numbers: Sequence[int]) -> str:
    """ffmpeg's expression for frames with these numbers; it nests a sum of n terms n deep, and from
    version 9 on refuses more than 100, so that a sum of halves is needed."""
    if len(numbers) == 1:
        return f"eq(n,{numbers[0]})"
    middle = len(numbers) // 2
    return f"({_any_of(numbers[:middle])}+{_any_of(numbers[middle:])})"


def _within(longest: int) -> str:
    fitting = f"scale='min({longest},iw)':'min({longest},ih)'"
    return fitting + ":force_original_aspect_ratio=decrease:force_divisible_by=2"


def _frames(path: Path, selection: str, layout: str, form: str) -> Iterator[Pixels]:
    """Frames as ffmpeg writes them in a row, each a picture of Netpbm with a header of its own.

    Raises InputError if there is none.
    """
    command = [_ffmpeg(), "-v", "error", "-i", f"file:{path}", "-an", "-vf", selection]
    # Without passthrough, frames are repeated where a phone left some out.
    command += ["-fps_mode", "passthrough", "-pix_fmt", layout, "-c:v", form]
    command += ["-f", "image2pipe", "-"]
    count = 0
    with tempfile.TemporaryFile() as words:
        # In its own process group, so that Ctrl-C reaches only us; we then end it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            process_group=0,
        )
        pipe = process.stdout
        assert pipe is not None
        try:
            while pipe.readline():
                width, height = map(int, pipe.readline().split())
                pipe.readline()
                shape = (height, width) if layout == "gray" else (height, width, 3)
                content = pipe.read(math.prod(shape))
                if len(content) < math.prod(shape):
                    break
                count += 1
                yield np.frombuffer(content, np.uint8).reshape(shape)
            process.wait()
        finally:
            process.kill()
            process.communicate()
        words.seek(0)
        if not count:
            raise _unreadable(path, words.read().decode(errors="replace"))


def _ffmpeg() -> str:
    import imageio_ffmpeg  # here, so that only videos wait for the import

    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise InputError(
            "there is no ffmpeg to decode with; pip install imageio-ffmpeg brings one, or "
            "IMAGEIO_FFMPEG_EXE may name yours"
        ) from error


def _seconds(what: str, told: str) -> float:
    """The last time that ffmpeg told after `what`; 0 if there is none."""
    times = re.findall(rf"{what}\s*(\d+):(\d+):([\d.]+)", told)
    if not times:
        return 0.0
    hours, minutes, seconds = map(float, times[-1])
    return 3600 * hours + 60 * minutes + seconds


def _unreadable(path: Path, told: str) -> InputError:
    if NO_INDEX in told:
        why = "it has no index, so its end is missing or its recording was never finished"
    else:
        lines = [re.sub(r"^\[.*?\] ", "", line).strip() for line in told.splitlines()]
        lines = [line for line in lines if line and "frame=" not in line]
        why = lines[-1] if lines else "it is empty"
    return InputError(f"{path} cannot be read as a video: {why}")
