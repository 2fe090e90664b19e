"""Import the cameras of `nerfmac export RUN cameras.json` into Blender.

Open this file in Blender's Scripting workspace, set `FILE`, and run it, or use the command

    blender scene.blend --python scripts/blender_cameras.py -- cameras.json

Each split becomes a collection of cameras, named after their images. Blender cameras have no
distortion and square pixels, so k1 to p2 are ignored and fl_x determines the field of view.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FILE = "cameras.json"

SENSOR = 36.0
"""Width of the sensor in millimeters, along the longer side of the image."""


def settings(frame: dict[str, Any]) -> dict[str, float]:
    """Return the settings of a Blender camera for a frame of the file."""
    side = max(frame["w"], frame["h"])
    return {
        "sensor_width": SENSOR,
        "lens": SENSOR * frame["fl_x"] / side,
        "shift_x": (frame["w"] / 2 - frame["cx"]) / side,
        "shift_y": (frame["cy"] - frame["h"] / 2) / side,
    }


def add_cameras(file: str) -> None:
    """Add the cameras in a file to the scene of Blender, and set the resolution of the first
    camera."""
    bpy: Any = import_module("bpy")
    matrix: Any = import_module("mathutils").Matrix
    values = json.loads(Path(file).read_text(encoding="utf-8"))
    frames = {frame["file_path"]: frame for frame in values["frames"]}
    splits = {split: values.get(f"{split}_filenames", []) for split in ("train", "val", "test")}
    if not any(splits.values()):
        splits["train"] = list(frames)
    render = bpy.context.scene.render
    first = values["frames"][0]
    render.resolution_x, render.resolution_y = int(first["w"]), int(first["h"])
    for split, names in splits.items():
        if not names:
            continue
        collection = bpy.data.collections.new(f"{split} cameras")
        bpy.context.scene.collection.children.link(collection)
        for name in names:
            data = bpy.data.cameras.new(name)
            data.sensor_fit = "AUTO"
            for key, value in settings(frames[name]).items():
                setattr(data, key, value)
            camera = bpy.data.objects.new(name, data)
            camera.matrix_world = matrix(frames[name]["transform_matrix"])
            collection.objects.link(camera)


if __name__ == "__main__":
    add_cameras(sys.argv[sys.argv.index("--") + 1] if "--" in sys.argv else FILE)
