"""`nerfmac inspect`: a scene's contents, and what looks wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from nerfmac.capture import captured
from nerfmac.cli.arguments import optional
from nerfmac.cli.scene_flags import SceneFlags
from nerfmac.inspection import compare_cameras, inspect_scene
from nerfmac.scenes import load_scene


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """List what a scene holds and what looks wrong, and draw its cameras and points."""

    scene: Annotated[Path, tyro.conf.Positional] = field(kw_only=True)
    """Folder of a scene, a video, or a folder of photographs; the latter two are captured first."""
    out: Annotated[Path | None, optional("FILE")] = None
    """PNG of cameras and points; by default NAME-cameras.png in the working folder."""
    against: Annotated[Path | None, optional("SCENE")] = None
    """Another scene of the same pictures, to measure the distances between aligned cameras."""


def main(argv: list[str]) -> int:
    """Inspect as `argv` says; return the exit code, 0 even for a flawed scene."""
    arguments = tyro.cli(Arguments, prog="nerfmac inspect", args=argv)
    options = arguments.options()  # bad ones are refused before a capture
    against = load_scene(arguments.against) if arguments.against else None
    inspection = inspect_scene(load_scene(captured(arguments.scene), **vars(options)))
    compared = compare_cameras(inspection.scene, against) if against else None
    out = arguments.out or Path(f"{inspection.scene.name}-cameras.png")
    inspection.draw(out)
    print(inspection)
    if compared:
        print(f"\nbeside {arguments.against}:\n{compared}")
    print(f"\ncameras, points and the cube are drawn in {out}")
    return 0
