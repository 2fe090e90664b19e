"""`nerfmac data`: list public NeRF scenes, or download a scene."""

from __future__ import annotations

from nerfmac.app.cli.options import Data
from nerfmac.app.datasets import COLLECTIONS, fetch, find


def main(arguments: Data) -> int:
    """Run `nerfmac data` and return the exit code."""
    if arguments.scene is None:
        for collection in COLLECTIONS:
            print("\n".join(collection.lines()) + "\n")
        print("To download a scene, use `nerfmac data SCENE`.")
        print("By downloading a scene, you accept its license.")
        return 0
    collection, _ = find(arguments.scene)
    folder = fetch(arguments.scene, arguments.out)
    print(f"The scene {folder} is ready. License: {collection.license}")
    if collection.inside is not None:
        archive = arguments.out / collection.name / collection.files[0].path
        print(f"{archive} is kept, because it also contains other scenes")
        print("To save space, delete this archive.")
    print(f"Next, run `nerfmac train {folder}`.")
    return 0
