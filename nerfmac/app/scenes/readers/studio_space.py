"""`StudioSpace`: from the coordinates of a scene's files to nerfstudio's scene.

nerfstudio turns, moves and scales a scene when it reads it. It writes the transform next to the
trained model, to dataparser_transforms.json:

    transform    3 rows of 4 numbers, [R | t]
    scale        one number

Its own position is scale * (R position + t). If the transforms.json has an `applied_transform` or
an `applied_scale`, `position` is the file's before these were applied. So the transforms.json is
read too. (nerfstudio's nerfstudio_dataparser.py.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.readers.blender import file_name
from nerfmac.app.scenes.readers.transforms import FILE_NAME
from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields

Array = npt.NDArray[np.float64]

TRANSFORMS = "dataparser_transforms.json"
ROTATION_WITHIN = 1e-3
"""Largest entry of |R^T R - 1| that is taken for rounding: the file's numbers are float32."""


class StudioSpace(NamedTuple):
    """nerfstudio's position is scale * (rotation @ the file's position + offset)."""

    rotation: Array  # (3, 3)
    offset: Array  # (3,)
    scale: float

    def to_file(self, pose: npt.NDArray[np.floating[Any]]) -> Array:
        """Return the camera-to-world `pose` (3, 4) of nerfstudio's scene in the file's axes."""
        position = self.rotation.T @ (pose[:, 3] / self.scale - self.offset)
        return np.column_stack([self.rotation.T @ pose[:, :3], position])


def read_studio_space(path: Path, scene: Path | None) -> StudioSpace:
    """Read the dataparser_transforms.json at `path`.

    `scene` is the scene's folder or transforms.json; None if the scene was never in files. Raises
    InputError for a file that cannot be read, and for a matrix that is no rotation.
    """
    file = read_fields(path)
    transform = np.array(file.table("transform", (3,), 4))
    scale = file.number("scale", above=0)
    applied = _transforms_of(scene)
    if applied is not None and "applied_transform" in applied:
        before = np.eye(4)
        before[:3] = applied.table("applied_transform", (3, 4), 4)[:3]
        if abs(np.linalg.det(before)) < 1e-9:
            raise applied.wrong("applied_transform", "a matrix that can be inverted")
        transform = transform @ np.linalg.inv(before)
    if applied is not None:
        scale /= applied.number("applied_scale", 1.0, above=0)
    rotation = transform[:, :3]
    if np.abs(rotation.T @ rotation - np.eye(3)).max() > ROTATION_WITHIN:
        raise InputError(f"{path}: transform does not hold a rotation; expected [R | t]")
    return StudioSpace(rotation, transform[:, 3], scale)


def _transforms_of(scene: Path | None) -> Fields | None:
    """The transforms.json of `scene`; None if there is none."""
    if scene is None:
        return None
    if scene.is_dir():
        if (scene / file_name("train")).exists():
            return None
        scene = scene / FILE_NAME
    return read_fields(scene) if scene.suffix.lower() == ".json" and scene.exists() else None
