"""`extract_cameras`: the cameras of a run as a transforms.json.

It is the format of instant-ngp and nerfstudio, in the coordinates of the scene's own files. It
holds the scene's placement, so `load_scene` reads the cameras where the run had them, unless that
placement turned the scene, which the format cannot express. nerfstudio's lists `train_filenames`
and `test_filenames` name the split of each camera.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import numpy as np

from nerfmac.app.run import Run, placement_of
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.placement import Placement

log = logging.getLogger("nerfmac")


def extract_cameras(run: Run) -> dict[str, Any]:
    """The JSON values: lenses in pixels with OpenCV's distortion, camera-to-file matrices (4, 4).

    Training cameras are the refined ones; those of other splits are as the scene's files have them.
    `file_path` is an image's name in the scene. If the scene cannot be read, only the training
    cameras are written, and views are numbered, with a warning. Raises `InputError` if the run
    lacks the scene's placement.
    """
    placement = placement_of(run)
    splits = _splits(run)
    frames = {
        name: _frame(name, camera, placement)
        for views in reversed(splits.values())  # a training camera replaces another one
        for name, camera in views.items()
    }
    names = {f"{split}_filenames": [*views] for split, views in splits.items()}
    ordered = dict.fromkeys(name for listed in names.values() for name in listed)
    return {
        "camera_model": "OPENCV",
        "aabb_scale": run.scene.extent,
        "scale": placement.scale,
        # Reading mirrors back poses that mirror space, and the offset with them.
        "offset": (placement.mirrored() if placement.is_mirrored else placement).offset.tolist(),
        "up": placement.turned_to_file(run.scene.up).tolist(),
        **(names if len(names) > 1 else {}),
        "frames": [frames[name] for name in ordered],
    }


def _frame(name: str, camera: Camera, placement: Placement) -> dict[str, Any]:
    lens = asdict(camera.lens)
    lens = {"w": lens.pop("width"), "h": lens.pop("height"), **lens}
    matrix = np.eye(4)
    matrix[:3, :3] = placement.turned_to_file(camera.pose[:, :3].T).T
    matrix[:3, 3] = placement.to_file(camera.pose[:, 3])
    return {"file_path": name, **lens, "transform_matrix": matrix.tolist()}


def _splits(run: Run) -> dict[str, dict[str, Camera]]:
    """The cameras of each split by name, the training ones first."""
    try:
        splits = dict(run.images().splits)
    except InputError as error:
        splits = {}
        log.warning("only training cameras are written, numbered: %s", error)
    train = splits.pop("train", ())
    names = [frame.name for frame in train]
    if len(names) != len(run.scene.cameras):
        names = [f"view_{number:04}.png" for number in range(len(run.scene.cameras))]
    found = {"train": dict(zip(names, run.cameras, strict=True))}
    others = {
        split: {frame.name: frame.camera for frame in frames} for split, frames in splits.items()
    }
    return found | {split: views for split, views in others.items() if views}
