"""Estimation of the rendering time of a video, and the default size of its frames."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path

from nerfmac.app.run import Run
from nerfmac.app.run.reporting import duration
from nerfmac.app.video.frames import CameraSamples, SideBySide
from nerfmac.backend import current_device
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

CPU_SIDE = 720
"""Longer side of the frames of a video on a CPU in pixels, unless the photos are smaller."""
LONG = 300.0  # Rendering time in seconds above which a smaller size is offered.
OFFERED = 180.0  # Approximate rendering time in seconds with the offered size.
MIN_SIDE = 64  # Minimum of the longer side in pixels that is offered.

log = logging.getLogger("nerfmac")


def video_size(lens: Lens) -> tuple[int, int]:
    """Return the default width and height of the frames of a video in pixels: the size of the
    photos. On a CPU, the longer side has at most `CPU_SIDE` pixels."""
    scale = CPU_SIDE / max(lens.width, lens.height) if current_device() == "cpu" else 1.0
    return scaled((lens.width, lens.height), min(scale, 1.0))


def scaled(size: tuple[int, int], factor: float) -> tuple[int, int]:
    """Return a frame size multiplied by `factor`, with even width and height of at least 2."""
    width, height = (max(round(side * factor / 2), 1) * 2 if factor < 1 else side for side in size)
    return width, height


def video_seconds(run: Run, cameras: Sequence[Camera]) -> float:
    """Estimate the rendering time in seconds of a video with one frame for each camera, with the
    default options, from a few small images."""
    return SideBySide([run], RenderOptions()).seconds([[camera] for camera in cameras])


def announce(out: Path, joined: SideBySide, frames: Sequence[CameraSamples]) -> None:
    """Log the number and size of the frames that will be rendered, and the estimated time. If the
    time exceeds `LONG`, a smaller size is offered."""
    if not frames:
        return
    lens, seconds = frames[0][0].lens, joined.seconds(frames)
    text = f"{len(frames)} frame{'s' * (len(frames) > 1)} of {lens.width}x{lens.height} pixels"
    text = f"rendering {text} to {out}, which takes about {duration(seconds)}"
    width, height = scaled((lens.width, lens.height), math.sqrt(OFFERED / max(seconds, OFFERED)))
    if seconds > LONG and max(width, height) >= MIN_SIDE:
        text += f"; with --size {width}x{height}, it takes about {duration(OFFERED)}"
    log.info("%s", text)
