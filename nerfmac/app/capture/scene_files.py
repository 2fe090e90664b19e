"""Writing of a captured scene: `transforms.json` and the sparse points as PLY, as instant-ngp and
nerfstudio read them. z is up, the origin is the point that the cameras look at, and their mean
distance from the origin is 1. Intrinsics include distortion as in OpenCV."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.capture.structure import Structure
from nerfmac.app.scenes.placement import fit, leveling
from nerfmac.app.scenes.ply_points import write_ply_points
from nerfmac.app.scenes.readers.transforms import FILE_NAME
from nerfmac.common import appearing, make_folder, write_json
from nerfmac.geometry import Lens

POINTS = "points.ply"
SEEN_BY = 3  # Minimum number of images of a point in `points.ply`. Other points are often wrong.
LENS_KEYS = ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2")


def write_scene(folder: Path, structure: Structure, *, is_object: bool) -> None:
    """Write `transforms.json` and `points.ply`. `is_object` specifies whether the
    images show a cut-out object."""
    images = sorted(structure.model.images, key=lambda image: image.name)
    poses = [image.camera_to_file for image in images]
    rows = structure.points[structure.points[:, 7] >= SEEN_BY]
    lenses = {
        number: structure.model.cameras[number].lens(f"{folder}: camera {number}")
        for number in {image.camera for image in images}
    }
    placement = fit(
        poses,
        is_object,
        str(folder),
        points=rows[:, :3],
        tangents=[lenses[image.camera].tangents for image in images],
        rotation=leveling(poses),
    )
    points = placement.to_scene(rows[:, :3]) - 0.5
    write_ply_points(folder / POINTS, points, rows[:, 3:6].astype(np.uint8))
    shared = _lens_values(lenses[images[0].camera]) if len(lenses) == 1 else {}
    frames = []
    for image, pose in zip(images, poses, strict=True):
        frame_lens = {} if shared else _lens_values(lenses[image.camera])
        matrix = np.eye(4)
        matrix[:3, :3] = placement.rotation @ pose[:, :3]
        matrix[:3, 3] = placement.to_scene(pose[:, 3]) - 0.5
        frames.append(
            {"file_path": f"images/{image.name}", **frame_lens, "transform_matrix": matrix.tolist()}
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


def copy_model(source: Path, target: Path) -> None:
    """Copy the binary files of a COLMAP model to the folder `target`."""
    make_folder(target)
    for file in source.glob("*.bin"):
        with appearing(target / file.name) as partial:
            shutil.copyfile(file, partial)


def _lens_values(lens: Lens) -> dict[str, Any]:
    return {"w": lens.width, "h": lens.height, **{key: getattr(lens, key) for key in LENS_KEYS}}
