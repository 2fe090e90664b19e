"""Reading videos: what ffmpeg says of one, its frames small and grey, and some of them in full.

The ffmpeg of `imageio-ffmpeg` decodes them. It turns frames upright, as the video's rotation says,
and reads whatever phones write: H.264 and HEVC, fragmented or not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.checks import InputError

ENDINGS = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".3gp", ".mpg", ".mpeg", ".mts")
"""Of files that are taken for videos, in small letters."""

GREY_SIZE = 640
"""The longer side of the frames that are compared: blur of a few pixels is still seen in them."""

MOST_COMPARED = 4000
"""Of a longer video only every second frame is compared, or every third, and so on."""


class Video(NamedTuple):
    """A video's frames a second and its seconds, as its header says; 0 where it does not."""

    path: Path
    fps: float
    seconds: float

    @property
    def step(self) -> int:
        """Every how manieth frame is compared."""
        return max(1, -(-round(self.fps * self.seconds) // MOST_COMPARED))


def is_video(path: Path) -> bool:
    """Whether `path` is a file with a video's ending."""
    return path.suffix.lower() in ENDINGS and path.is_file()


def open_video(path: Path) -> Video:
    """What the header of `path` says; raises InputError if ffmpeg finds no video in it."""
    with _reading(path, []) as frames:
        header = next(frames)
    return Video(path, _finite(header.get("fps")), _finite(header.get("duration")))


def grey_frames(video: Video) -> Iterator[npt.NDArray[np.uint8]]:
    """Every `video.step`th frame, uint8 (h, w), its longer side `GREY_SIZE` pixels at most."""
    fitting = f"scale='min({GREY_SIZE},iw)':'min({GREY_SIZE},ih)'"
    fitting += ":force_original_aspect_ratio=decrease:force_divisible_by=2:flags=area"
    chosen = f"select='not(mod(n,{video.step}))'," if video.step > 1 else ""
    with _reading(video.path, ["-vf", chosen + fitting], "gray", 8) as frames:
        width, height = next(frames)["size"]
        for frame in frames:
            yield np.frombuffer(frame, np.uint8).reshape(height, width)


def full_frames(
    video: Video, numbers: Sequence[int], longest: int
) -> Iterator[npt.NDArray[np.uint8]]:
    """The frames with these `numbers`, ascending, uint8 (h, w, 3).

    A frame whose longer side has more than `longest` pixels is reduced to so many.
    """
    chosen = "+".join(f"eq(n,{number})" for number in numbers)
    fitting = f"scale='min({longest},iw)':'min({longest},ih)'"
    fitting += ":force_original_aspect_ratio=decrease:flags=area"
    with _reading(video.path, ["-vf", f"select='{chosen}',{fitting}"], "rgb24", 24) as frames:
        width, height = next(frames)["size"]
        for frame in frames:
            yield np.frombuffer(frame, np.uint8).reshape(height, width, 3)


@contextmanager
def _reading(
    path: Path, options: list[str], layout: str = "rgb24", bits: int = 24
) -> Iterator[Iterator[Any]]:
    """What `imageio_ffmpeg.read_frames` gives: the header, then each frame's bytes."""
    import imageio_ffmpeg  # here, so that only videos wait for the import

    # Without it, frames are repeated where a phone left some out.
    options = [*options, "-fps_mode", "passthrough"]
    about_sizes = logging.getLogger("imageio_ffmpeg")
    level = about_sizes.level
    about_sizes.setLevel(logging.ERROR)  # it warns of each size that is asked for
    try:
        frames = imageio_ffmpeg.read_frames(
            str(path), pix_fmt=layout, bits_per_pixel=bits, output_params=options
        )
        with closing(frames):
            yield frames
    except (OSError, RuntimeError, IndexError) as error:
        last = str(error).strip().splitlines()
        raise InputError(
            f"{path} cannot be read as a video: {last[-1].strip() if last else 'nothing is in it'}"
        ) from error
    finally:
        about_sizes.setLevel(level)


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e6 else 0.0
