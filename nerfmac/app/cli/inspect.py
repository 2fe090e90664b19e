"""`nerfmac inspect`: summarize a scene and report possible problems."""

from __future__ import annotations

from pathlib import Path

from nerfmac.app.capture import captured
from nerfmac.app.cli.options import Inspect
from nerfmac.app.inspection import compare_cameras, inspect_scene
from nerfmac.app.scenes import load_scene


def main(arguments: Inspect) -> int:
    """Run `nerfmac inspect` and return the exit code, which is 0 even if problems are found."""
    options = arguments.options()  # Reports invalid options before a long capture.
    against = load_scene(arguments.against) if arguments.against else None
    inspection = inspect_scene(load_scene(captured(arguments.scene), **vars(options)))
    compared = compare_cameras(inspection.scene, against) if against else None
    out = arguments.out or Path(f"{inspection.scene.name}-cameras.png")
    inspection.draw(out)
    print(inspection)
    if compared:
        print(f"\ncompared with {arguments.against}:\n{compared}")
    print(f"\nThe cameras, the points, and the scene cube are drawn in {out}.")
    return 0
