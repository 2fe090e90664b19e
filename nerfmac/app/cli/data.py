"""`nerfmac data`: list public NeRF scenes, or download one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.datasets import COLLECTIONS, fetch, find


@dataclass(frozen=True)
class Arguments:
    """List public scenes with size, license, and source, or download one.

    Only the download uses the network.
    """

    scene: Annotated[str | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene to download, such as lego or mipnerf360/room. Without SCENE, all scenes are listed."""
    out: Path = Path("data")
    """Folder to download to. The scene is saved in OUT/COLLECTION/SCENE. Interrupted downloads are
    resumed."""


def main(argv: list[str]) -> int:
    """Run `nerfmac data` with the arguments `argv` and return the exit code."""
    arguments = parsed(Arguments, argv)
    if arguments.scene is None:
        for collection in COLLECTIONS:
            print("\n".join(collection.lines()) + "\n")
        print("`nerfmac data SCENE` downloads a scene. By downloading, you accept its license.")
        return 0
    collection, _ = find(arguments.scene)
    folder = fetch(arguments.scene, arguments.out)
    print(f"{folder} is ready. License: {collection.license}")
    if collection.inside is not None:
        archive = arguments.out / collection.name / collection.files[0].path
        print(f"{archive} is kept because it contains other scenes; delete it to save space")
    print(f"Next, run `nerfmac train {folder}`.")
    return 0
