"""`nerfmac inspect`: the contents of a scene, and what looks wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from nerfmac.app.capture import captured
from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags
from nerfmac.app.inspection import compare_cameras, inspect_scene
from nerfmac.app.scenes import load_scene


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """List a scene's contents and what looks wrong, and draw its cameras and points."""

    scene: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Folder of a scene; a video or a folder of photos is captured first."""
    out: Annotated[Path | None, Shown("FILE")] = None
    """PNG to draw cameras and points in; by default NAME-cameras.png in the working folder."""
    against: Annotated[Path | None, Shown("SCENE")] = None
    """Another scene of the same images: also print how its cameras differ, once aligned."""


def main(argv: list[str]) -> int:
    """Inspect as `argv` says; return the exit code, 0 whatever is found."""
    arguments = parsed(Arguments, argv)
    options = arguments.options()  # mistakes are found before a capture
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
