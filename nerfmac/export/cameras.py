"""`extract_cameras`: a run's training cameras as a transforms.json, which other programs read too.

It is the format of instant-ngp and nerfstudio, in the coordinates of the scene's own files. It
holds the scene's placement, so `load_scene` reads the cameras where the run had them, unless that
placement turned the scene, which the format cannot say.
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

    `file_path` is each picture's name as the scene has it; where the scene cannot be read the
    views are numbered. Poses and lenses are as training refined them. Raises `InputError` if
    nothing says where the scene's coordinates lie.
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
        # Poses that mirror space are mirrored back when they are read, and the offset with them.
        "offset": (placement.mirrored() if placement.is_mirrored else placement).offset.tolist(),
        "up": placement.turned_to_file(run.scene.up).tolist(),
        "frames": frames,
    }


def _names(run: Run) -> list[str]:
    cameras = run.scene.cameras
    try:
        names = [frame.name for frame in run.pictures().splits["train"]]
    except InputError as error:
        log.warning("the views are numbered, as the scene cannot be read: %s", error)
        names = []
    if len(names) == len(cameras):
        return names
    return [f"view_{number:04}.png" for number in range(len(cameras))]
