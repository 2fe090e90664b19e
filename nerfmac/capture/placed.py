"""A structure made into a scene: levelled, centred, scaled, and written as a `transforms.json`.

The file is one that instant-ngp and nerfstudio read too. Its coordinates are chosen so: z is up,
the origin is what the cameras look at, and they are one unit away from it in the mean. Lenses have
OpenCV's distortion. The sparse points lie beside it as a PLY file that `ply_file_path` names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.capture.structure import Structure
from nerfmac.common.files import write_json
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.placement import Placement, fit
from nerfmac.scenes.ply_points import write_ply_points
from nerfmac.scenes.poses import levelling
from nerfmac.scenes.readers.colmap import camera_to_file, lens_of
from nerfmac.scenes.readers.transforms import FILE_NAME

POINTS = "points.ply"
SEEN_BY = 3
"""Points that fewer pictures see are often wrong, and left out."""
NUMBERS = ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2")
"""Of a lens, in the file."""


def write_scene(folder: Path, structure: Structure, *, is_object: bool) -> None:
    """Write `transforms.json` and `points.ply` to `folder`, whose pictures are in `images`.

    `is_object` says that alpha cuts out what the pictures show. Raises InputError where a file
    cannot be written.
    """
    images = sorted(structure.model.images, key=lambda image: image.name)
    poses = [camera_to_file(image) for image in images]
    rows = structure.points[structure.points[:, 7] >= SEEN_BY]
    rotation = levelling(poses)
    lenses = {
        number: lens_of(structure.model.cameras[number], f"{folder}: camera {number}")
        for number in {image.camera for image in images}
    }
    placement = fit(
        *(poses, is_object, str(folder)),
        points=rows[:, :3],
        tangents=[lenses[image.camera].tangents for image in images],
        rotation=rotation,
    )
    points = _moved(placement, rows[:, :3])
    write_ply_points(folder / POINTS, points, rows[:, 3:6].astype(np.uint8))
    shared = _written(lenses[images[0].camera]) if len(lenses) == 1 else {}
    frames = []
    for image, pose in zip(images, poses, strict=True):
        own = {} if shared else _written(lenses[image.camera])
        matrix = np.eye(4)
        matrix[:3, :3] = placement.rotation @ pose[:, :3]
        matrix[:3, 3] = _moved(placement, pose[:, 3])
        frames.append(
            {"file_path": f"images/{image.name}", **own, "transform_matrix": matrix.tolist()}
        )
    values = {
        "camera_model": "OPENCV",
        **shared,
        "aabb_scale": int(placement.extent),
        "scale": 1.0,
        "offset": [0.5, 0.5, 0.5],
        "up": [0.0, 0.0, 1.0],
        "ply_file_path": POINTS,
        "frames": frames,
    }
    write_json(folder / FILE_NAME, values)


def _moved(placement: Placement, position: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Positions (..., 3) of the structure in the file's coordinates."""
    return placement.to_scene(position) - 0.5


def _written(lens: Lens) -> dict[str, Any]:
    return {"w": lens.width, "h": lens.height, **{name: getattr(lens, name) for name in NUMBERS}}
