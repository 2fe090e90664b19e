"""`nerfmac data`, `nerfmac capture`, and `nerfmac inspect`: obtaining and checking a scene."""

from nerfmac.app.capture import capture_scene, captured
from nerfmac.app.cli.arguments import part_of
from nerfmac.app.cli.options import Capture, Data, Inspect
from nerfmac.app.datasets import COLLECTIONS, fetch, find
from nerfmac.app.inspection import inspect_scene
from nerfmac.app.scenes import load_scene
from nerfmac.config.scenes import CaptureOptions


def data(arguments: Data) -> int:
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


def capture(arguments: Capture) -> int:
    """Run `nerfmac capture` and return the exit code."""
    options = part_of(arguments, CaptureOptions)
    print(capture_scene(arguments.source, arguments.out, options))
    return 0


def inspect(arguments: Inspect) -> int:
    """Run `nerfmac inspect` and return the exit code, which is 0 even if problems are found."""
    options = arguments.options()  # Reports invalid options before a long capture.
    scene = load_scene(captured(arguments.scene), **vars(options))
    inspection = inspect_scene(scene, match=arguments.match)
    print(inspection)
    if arguments.out:  # Last, because the report must be printed even if this file is not writable.
        inspection.draw(arguments.out)
        print(f"\nThe cameras, the points, and the scene cube are drawn in {arguments.out}.")
    return 0
