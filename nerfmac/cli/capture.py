"""`nerfmac capture`: from a video or photographs to a scene with cameras."""

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
    """Estimate the cameras of a video or of photographs, and write a scene."""

    source: Annotated[Path, tyro.conf.Positional]
    """A video, or a folder of photographs."""
    out: Annotated[Path | None, optional("SCENE")] = None
    """Folder of the scene; by default captures/NAME."""
    longest_side: Annotated[int, tyro.conf.arg(metavar="PIXELS")] = 1920
    """Reduce pictures whose longer side has more pixels."""
    frames: Annotated[int | None, optional("N")] = None
    """Take about N frames of a video; by default their number follows from its motion."""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Pairs of pictures to compare. sequential: each with the next ones, then with nearby ones.
    exhaustive: all pairs. window: each with the next 40. auto: sequential; and for photographs
    whose names do not follow the cameras, exhaustive, or from 100 photographs on window."""
    focal_35mm: Annotated[float | None, optional("MM")] = None
    """Focal length of all pictures, in mm on 35 mm film, in place of EXIF's; 24 to 28 for the main
    lens of most phones. By default EXIF's; several are tried if EXIF has none."""


def main(argv: list[str]) -> int:
    """Capture as `argv` says; print the scene's folder and return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac capture", args=argv)
    # A terminated capture can be resumed like an interrupted one.
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
