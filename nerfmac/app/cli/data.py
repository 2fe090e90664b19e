"""`nerfmac data`: the public scenes of the field; fetches one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.datasets import COLLECTIONS, fetch, find


@dataclass(frozen=True)
class Arguments:
    """List public scenes with size, license and source, or fetch one. Only fetching uses the
    network."""

    scene: Annotated[str | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene to fetch, such as lego or mipnerf360/room; without one, all are listed."""
    out: Path = Path("data")
    """Folder to fetch to; the scene is OUT/COLLECTION/SCENE. A broken download is resumed."""


def main(argv: list[str]) -> int:
    """List or fetch as `argv` says; return the exit code."""
    arguments = parsed(Arguments, argv)
    if arguments.scene is None:
        for collection in COLLECTIONS:
            print("\n".join(collection.lines()) + "\n")
        print("`nerfmac data SCENE` fetches a scene, and by that you accept its license.")
        return 0
    collection, _ = find(arguments.scene)
    folder = fetch(arguments.scene, arguments.out)
    print(f"{folder} is ready; its license: {collection.license}")
    if collection.inside is not None:
        archive = arguments.out / collection.name / collection.files[0].path
        print(f"{archive} is kept for its other scenes; delete it if you want none of them")
    print(f"`nerfmac train {folder}` trains on it")
    return 0
