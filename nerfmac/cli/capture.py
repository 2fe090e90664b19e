"""`nerfmac capture`: a video or photographs in, a scene with its cameras out."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nerfmac.capture import capture_scene
from nerfmac.cli.arguments import optional


@dataclass(frozen=True)
class Arguments:
    """Find where the cameras of a video or of photographs stood, and write a scene."""

    source: Annotated[Path, tyro.conf.Positional]
    """A video, or a folder of photographs."""
    out: Annotated[Path | None, optional("SCENE")] = None
    """Folder of the scene; by default captures/NAME."""
    longest_side: Annotated[int, tyro.conf.arg(metavar="PIXELS")] = 1920
    """Reduce pictures whose longer side has more pixels."""
    frames: Annotated[int | None, optional("N")] = None
    """Take about N frames of a video; by default as many as its motion asks for."""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Compare each picture with those that follow it, and then those nearby; each with each; or
    each with the 40 that follow it. auto: the first, and for photographs whose names are in no
    order that agrees with the cameras the second, or from 100 on the third."""
    focal_35mm: Annotated[float | None, optional("MM")] = None
    """Focal length of every picture in millimetres as on 35 mm film, in place of EXIF's: 24 to 28
    for the main lens of most phones. By default EXIF's; where it names none, several are tried."""


def main(argv: list[str]) -> int:
    """Capture as `argv` says; print the scene's folder and return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac capture", args=argv)
    # A terminated capture goes on later like an interrupted one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = capture_scene(
        arguments.source,
        arguments.out,
        longest_side=arguments.longest_side,
        frames=arguments.frames,
        matching=arguments.matching,
        focal_35mm=arguments.focal_35mm,
    )
    print(folder)
    return 0
