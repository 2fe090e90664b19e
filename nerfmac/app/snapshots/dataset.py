"""Reading of the `dataset` of a snapshot, with the training cameras and the placement of the scene
files.

Poses are camera-to-scene matrices (3, 4) in the scene of instant-ngp. The axes of this scene are
the y, z, and x axes of the files. Cameras look along +z, with y down. Principal points are
fractions of the image size.

instant-ngp maps a file position p to CYCLE (scale p + offset). If `from_mitsuba` is set, CYCLE is
omitted, but every OpenGL camera is rotated by 180 degrees about its y axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.placement import Placement

CYCLE = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
"""Rotation from the axes of the scene files to the axes of instant-ngp."""
FLIP = np.array([1.0, -1.0, -1.0, 1.0])
"""Factors for the four columns of a pose that convert OpenGL camera axes to the axes of instant-ngp
and back. In instant-ngp, y is down and z is forward. The fourth column is the position and does not
change."""
DISTORTION = {True: ("k1", "k2", "k3", "k4"), False: ("k1", "k2", "p1", "p2")}
"""Keys of the distortion coefficients of a fisheye lens (True) and of any other lens (False)."""
OTHER_LENSES = ("ftheta_p0", "latlong", "halflatlong", "equirectangular", "orthographic")


def read_cameras(dataset: Fields) -> tuple[Camera, ...]:
    """Return the training cameras in the axes of instant-ngp. Raises `InputError` if a camera is
    invalid."""
    pairs = zip(dataset.objects("metadata"), dataset.objects("xforms"), strict=False)
    return tuple(_camera(about, xform) for about, xform in pairs)


def read_placement(dataset: Fields, extent: float) -> Placement:
    """Return the placement of the scene files in instant-ngp's scene cube, which has side length
    `extent`."""
    scale, offset = dataset.number("scale", above=0), np.array(dataset.numbers("offset", 3))
    return Placement(scale, CYCLE @ offset, extent, CYCLE)


def _camera(about: Fields, xform: Fields) -> Camera:
    pose = np.array(xform.table("start", (3,), 4)) * FLIP
    width, height = (int(side) for side in about.numbers("resolution", 2))
    fl_x, fl_y = about.numbers("focal_length", 2)
    across, down = about.numbers("principal_point", 2, (0.5, 0.5))
    try:
        center = across * width, down * height
        lens = Lens(width, height, fl_x, fl_y, *center, **_distortion(about))
        return Camera(lens, pose.astype(np.float32))
    except InputError as error:
        raise InputError(f"{about.where}: {error}") from error


def _distortion(about: Fields) -> dict[str, Any]:
    """Return the distortion arguments for `Lens`. Raises `InputError` if the lens is not
    supported."""
    key = "lens" if "lens" in about else "camera_distortion"
    if key not in about or about.is_null(key):
        return {}
    lens = about.object(key)
    for other in OTHER_LENSES:
        if other in lens:
            raise InputError(f"{lens.where} is {other}; expected perspective or OpenCV fisheye")
    is_fisheye = "is_fisheye" in lens and lens.flag("is_fisheye")
    keys = DISTORTION[is_fisheye]
    return {"is_fisheye": is_fisheye, **{key: lens.number(key, 0.0) for key in keys}}
