"""`extract_cameras` converts a run's cameras to the contents of a `transforms.json`.

The file has the format of instant-ngp and nerfstudio. It also contains the placement of the scene,
so that `load_scene` places the cameras as in the run. The format cannot represent a rotation.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from nerfmac.app.run import Run
from nerfmac.geometry import Camera, Placement


def extract_cameras(run: Run) -> dict[str, Any]:
    """Return the contents of a `transforms.json` with the cameras of `run`.

    Training cameras have refined poses and lenses if the run refines them. Cameras of other splits
    are unchanged.

    Args:
        run: Run with the cameras.

    Returns:
        Contents of a `transforms.json`. `file_path` is the name of the image in the scene.
        Intrinsics are in pixels, with the distortion model of OpenCV. Matrices (4, 4) map camera
        coordinates to the coordinates of the scene files.
    """
    placement = run.scene.placement
    splits = _splits(run)
    frames = {
        name: _frame(name, camera, placement)
        for views in reversed(splits.values())  # Training cameras replace equal names.
        for name, camera in views.items()
    }
    names = {f"{split}_filenames": [*views] for split, views in splits.items()}
    ordered = dict.fromkeys(name for listed in names.values() for name in listed)
    return {
        "camera_model": "OPENCV",
        "aabb_scale": run.scene.extent,
        "scale": placement.scale,
        # Reading a file undoes the reflection of mirrored poses and of the offset.
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
    """Return the cameras by split name and image name, training cameras first."""
    splits = dict((run.source or run.scene).splits)
    train = splits.pop("train", ())
    if len(train) != len(run.cameras):  # A snapshot may have other training views than its scene.
        train = run.scene.splits["train"]
    names = [frame.name for frame in train]
    found = {"train": dict(zip(names, run.cameras, strict=True))}
    others = {
        split: {frame.name: frame.camera for frame in frames} for split, frames in splits.items()
    }
    return found | {split: views for split, views in others.items() if views}
