"""`load_path`: a camera path from a file, as it lies in the scene of a run.

Files of nerfmac hold positions of its own scene. So do those of instant-ngp, which places a scene
alike. nerfstudio's are moved by what its dataparser_transforms.json says.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.common.json_reader import read_fields
from nerfmac.paths import CameraPath
from nerfmac.run.placed import placement_of
from nerfmac.run.run import Run
from nerfmac.scenes.readers.studio_space import TRANSFORMS, read_studio_space

log = logging.getLogger("nerfmac")


def load_path(run: Run, file: str | Path, transforms: str | Path | None = None) -> CameraPath:
    """The camera path in the JSON `file`, in `run`'s scene.

    `transforms` is nerfstudio's dataparser_transforms.json, if `file` is nerfstudio's; one of that
    name beside `file` is found. Without one its positions are taken for those of the run's scene,
    with a warning.

    Raises `InputError` that names the file and the field.
    """
    file, path = user_path(file), CameraPath.load(file)
    if "camera_path" not in read_fields(file):
        if transforms is not None:
            raise InputError(f"{file} is not nerfstudio's: {transforms} says nothing about it")
        return path
    beside = file.with_name(TRANSFORMS)
    if transforms is None and not beside.is_file():
        log.warning(
            "there is no %s beside %s, nor is one named: its positions are taken for those of the "
            "run's scene",
            *(TRANSFORMS, file),
        )
        return path
    scene = None if run.scene.path is None else Path(run.scene.path)
    space = read_studio_space(user_path(transforms or beside), scene)
    placement = placement_of(run)
    poses = [placement.apply(space.to_file(each.pose)) for each in path.keyframes]
    moved = [
        replace(each, pose=pose.astype(np.float64))
        for each, pose in zip(path.keyframes, poses, strict=True)
    ]
    return replace(path, keyframes=moved)
