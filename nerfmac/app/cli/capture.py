"""`nerfmac capture`: a video or photos in, a scene with its cameras out."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.capture import capture_scene
from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Find the cameras of a video or of photos, and write a scene."""

    source: Annotated[Path, POSITIONAL]
    """A video, or a folder of photos."""
    out: Annotated[Path | None, Shown("SCENE")] = None
    """Folder of the scene; by default captures/NAME. The same command continues a capture there."""
    longest_side: Annotated[int, Shown("PIXELS")] = 1920
    """Longest side of the scene's images in pixels; larger images are reduced."""
    frames: Annotated[int | None, Shown("N")] = None
    """Take about N frames of a video; by default 50 to 200, more if the camera moves more."""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Pairs of images to match. sequential: each with the 10 that follow it by name, then with
    nearby cameras. window: each with the 40 that follow it. exhaustive: all pairs, slow for
    hundreds of images. auto: for a video, sequential. For photos, sequential if their names
    follow a walk; if they do not, or if cameras are then missing or contradict the order,
    exhaustive (window from 100 images on). Of two results, the one that agrees better with the
    order is kept."""
    focal_35mm: Annotated[float | None, Shown("MM")] = None
    """35 mm equivalent focal length of every image, in millimeters: 24 to 28 for the main lens of
    most phones. By default EXIF's; for images without it, several are tried."""


def main(argv: list[str]) -> int:
    """Capture as `argv` says; print the scene's folder and return the exit code."""
    arguments = parsed(Arguments, argv)
    # A terminated capture can continue like an interrupted one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(capture_scene(**vars(arguments)))
    return 0
