"""Transform from file coordinates to the scene coordinates of nerfstudio, scale * (R position + t),
in `dataparser_transforms.json` (`transform` = [R | t], `scale`) next to its trained model. In this
file, `position` precedes `applied_transform` and `applied_scale` of `transforms.json`. The source
is nerfstudio's `nerfstudio_dataparser.py`."""

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
"""Maximum entry of |R^T R - I| that counts as a rounding error of float32 rotations R."""


class StudioSpace(NamedTuple):
    """Transform to nerfstudio coordinates, scale * (rotation @ file position + offset)."""

    rotation: Array  # (3, 3)
    offset: Array  # (3,)
    scale: float

    def to_file(self, pose: npt.NDArray[np.floating[Any]]) -> Array:
        """Transform a camera-to-world pose (3, 4) from nerfstudio to file coordinates."""
        position = self.rotation.T @ (pose[:, 3] / self.scale - self.offset)
        return np.column_stack([self.rotation.T @ pose[:, :3], position])


def read_studio_space(path: Path, scene: Path | None) -> StudioSpace:
    """Read a `dataparser_transforms.json`. `scene` is the scene folder, `transforms.json`, or
    None."""
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
        raise InputError(f"{path}: transform does not contain a rotation; expected [R | t]")
    return StudioSpace(rotation, transform[:, 3], scale)


def _transforms_of(scene: Path | None) -> Fields | None:
    """Return the parsed `transforms.json` of the scene, or None if the file does not exist."""
    if scene is None:
        return None
    if scene.is_dir():
        if (scene / file_name("train")).exists():
            return None
        scene = scene / FILE_NAME
    return read_fields(scene) if scene.suffix.lower() == ".json" and scene.exists() else None
