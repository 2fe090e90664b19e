"""A snapshot's `dataset`: the training cameras and the placement of the scene's files.

Poses are camera-to-scene matrices (3, 4) in instant-ngp's scene, whose axes are y, z, x of the
files'. Its cameras look along +z with y down. Principal points are fractions of the picture.

instant-ngp places a file's position p at CYCLE (scale p + offset). `from_mitsuba` omits CYCLE, but
also turns every OpenGL camera by 180 degrees about its y axis, so it is always written as false. A
run with other axes is written as a scene whose files were turned by `turn_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.placement import Placement

CYCLE = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
"""Rotation from the files' axes to instant-ngp's."""
FLIP = np.array([1.0, -1.0, -1.0, 1.0])
"""Factors of a pose's four columns, from OpenGL's camera axes to instant-ngp's and back:
instant-ngp has y down and z forwards; the fourth column, the position, stays."""
DISTORTION = {True: ("k1", "k2", "k3", "k4"), False: ("k1", "k2", "p1", "p2")}
"""Keys of the distortion coefficients, by whether the lens is a fisheye."""
OTHER_LENSES = ("ftheta_p0", "latlong", "halflatlong", "equirectangular", "orthographic")


def read_cameras(dataset: Fields) -> tuple[Camera, ...]:
    """The training cameras, in instant-ngp's axes. Raises `InputError`."""
    pairs = zip(dataset.objects("metadata"), dataset.objects("xforms"), strict=False)
    return tuple(_camera(about, xform) for about, xform in pairs)


def read_placement(dataset: Fields, extent: float) -> Placement:
    """Placement of the scene's files in instant-ngp's scene, whose cube has the side `extent`."""
    scale, offset = dataset.number("scale", above=0), np.array(dataset.numbers("offset", 3))
    return Placement(scale, CYCLE @ offset, extent, CYCLE)


def turn_of(placement: Placement) -> npt.NDArray[np.float64]:
    """Rotation (3, 3) that the files need for instant-ngp to place them as `placement` does:

    CYCLE (scale turn p + CYCLE^T offset) = scale rotation p + offset
    """
    return CYCLE.T @ placement.rotation


def _camera(about: Fields, xform: Fields) -> Camera:
    pose = np.array(xform.table("start", (3,), 4)) * FLIP
    width, height = (int(side) for side in about.numbers("resolution", 2))
    fl_x, fl_y = about.numbers("focal_length", 2)
    across, down = about.numbers("principal_point", 2, (0.5, 0.5))
    try:
        centre = across * width, down * height
        lens = Lens(width, height, fl_x, fl_y, *centre, **_distortion(about))
        return Camera(lens, pose.astype(np.float32))
    except InputError as error:
        raise InputError(f"{about.where}: {error}") from error


def _distortion(about: Fields) -> dict[str, Any]:
    """Arguments of `Lens` for the distortion. Raises `InputError` for other kinds of lenses."""
    key = "lens" if "lens" in about else "camera_distortion"
    if key not in about or about.is_null(key):
        return {}
    lens = about.object(key)
    for other in OTHER_LENSES:
        if other in lens:
            raise InputError(f"{lens.where} is {other}; expected a perspective or OpenCV's fisheye")
    is_fisheye = "is_fisheye" in lens and lens.flag("is_fisheye")
    keys = DISTORTION[is_fisheye]
    return {"is_fisheye": is_fisheye, **{key: lens.number(key, 0.0) for key in keys}}


def written_dataset(
    cameras: Sequence[Camera], names: Sequence[str], up: Sequence[float], placement: Placement
) -> dict[str, Any]:
    """The snapshot's record of `cameras` and `placement`.

    Cameras have the run's axes. Only scale, offset and extent are written, so instant-ngp places
    the scene's files right only after they are rotated by `turn_of(placement)`.
    """
    box = written_box(placement.extent)
    return {
        "n_images": len(cameras),
        "paths": list(names),
        "metadata": [_about(camera.lens) for camera in cameras],
        "xforms": [dict.fromkeys(("start", "end"), _pose(camera.pose)) for camera in cameras],
        "render_aabb": box,
        "render_aabb_to_local": np.eye(3).tolist(),
        "up": [float(each) for each in up],
        "offset": (CYCLE.T @ placement.offset).tolist(),
        "envmap_resolution": [0, 0],
        "scale": placement.scale,
        "aabb_scale": int(placement.extent),
        "from_mitsuba": False,
        "is_hdr": False,
        "wants_importance_sampling": True,
        "n_extra_learnable_dims": 0,
    }


def written_box(extent: float) -> dict[str, list[float]]:
    """The scene's cube as JSON values: its lowest and highest corner."""
    low, high = Bounds(extent).corners
    return {"min": low.tolist(), "max": high.tolist()}


def written_camera(camera: Camera) -> dict[str, Any]:
    """JSON values of the view with which instant-ngp opens the snapshot."""
    lens = camera.lens
    focal = [lens.fl_x / lens.height, lens.fl_y / lens.height]
    return {"matrix": _pose(camera.pose), "fov_axis": 1, "relative_focal_length": focal}


def _pose(pose: npt.NDArray[np.float32]) -> list[list[float]]:
    rows: list[list[float]] = (pose.astype(np.float64) * FLIP).tolist()
    return rows


def _about(lens: Lens) -> dict[str, Any]:
    distortion: dict[str, Any] = {}
    if lens.is_fisheye or lens.is_distorted:
        keys = DISTORTION[lens.is_fisheye]
        distortion = {"is_fisheye": lens.is_fisheye, **{key: getattr(lens, key) for key in keys}}
    return {
        "focal_length": [lens.fl_x, lens.fl_y],
        "lens": distortion,
        "principal_point": [lens.cx / lens.width, lens.cy / lens.height],
        "rolling_shutter": [0.0, 0.0, 0.0, 0.0],
        "resolution": [lens.width, lens.height],
    }
