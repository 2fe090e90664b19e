"""`extract_cameras`: a run's training cameras as a transforms.json.

It is the format of instant-ngp and nerfstudio, in the coordinates of the scene's own files. It
holds the scene's placement, so `load_scene` reads the cameras where the run had them, unless that
placement turned the scene, which the format cannot express.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.run import Run, placement_of

log = logging.getLogger("nerfmac")


def extract_cameras(run: Run) -> dict[str, Any]:
    """The JSON values: lenses in pixels with OpenCV's distortion, camera-to-file matrices (4, 4).

    Poses and lenses are the refined ones. `file_path` is a picture's name in the scene; if the
    scene cannot be read, views are numbered, with a warning. Raises `InputError` if the run lacks
    the scene's placement.
    """
    placement = placement_of(run)
    frames = []
    for camera, name in zip(run.cameras, _names(run), strict=True):
        lens = asdict(camera.lens)
        lens = {"w": lens.pop("width"), "h": lens.pop("height"), **lens}
        matrix = np.eye(4)
        matrix[:3, :3] = placement.turned_to_file(camera.pose[:, :3].T).T
        matrix[:3, 3] = placement.to_file(camera.pose[:, 3])
        frames.append({"file_path": name, **lens, "transform_matrix": matrix.tolist()})
    return {
        "camera_model": "OPENCV",
        "aabb_scale": run.scene.extent,
        "scale": placement.scale,
        # Reading mirrors back poses that mirror space, and the offset with them.
        "offset": (placement.mirrored() if placement.is_mirrored else placement).offset.tolist(),
        "up": placement.turned_to_file(run.scene.up).tolist(),
        "frames": frames,
    }


def _names(run: Run) -> list[str]:
    names = []
    try:
        names = [frame.name for frame in run.pictures().splits["train"]]
    except InputError as error:
        log.warning("the views are numbered, as the scene cannot be read: %s", error)
    if len(names) == len(run.scene.cameras):
        return names
    return [f"view_{number:04}.png" for number in range(len(run.scene.cameras))]
