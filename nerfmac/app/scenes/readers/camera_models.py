"""Camera models of COLMAP, which nerfstudio and other programs also use in JSON files.

A model can be read if all its parameters are parameters of `Lens`.
"""

from nerfmac.common import InputError

PARAMETERS = {
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fl_x fl_y cx cy",
    "SIMPLE_RADIAL": "f cx cy k1",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fl_x fl_y cx cy k1 k2 p1 p2",
    "OPENCV_FISHEYE": "fl_x fl_y cx cy k1 k2 k3 k4",
    "FULL_OPENCV": "fl_x fl_y cx cy k1 k2 p1 p2 k3 d1 d2 d3",
    "FOV": "fl_x fl_y cx cy omega",
    "SIMPLE_RADIAL_FISHEYE": "f cx cy k1",
    "RADIAL_FISHEYE": "f cx cy k1 k2",
    "THIN_PRISM_FISHEYE": "fl_x fl_y cx cy k1 k2 p1 p2 k3 k4 sx1 sy1",
    "RAD_TAN_THIN_PRISM_FISHEYE": "fl_x fl_y cx cy k1 k2 k3 k4 k5 k6 p1 p2 sx1 sx2 sy1 sy2",
    "SIMPLE_DIVISION": "f cx cy division",
    "DIVISION": "fl_x fl_y cx cy division",
    "SIMPLE_FISHEYE": "f cx cy",
    "FISHEYE": "fl_x fl_y cx cy",
    "EUCM": "fl_x fl_y cx cy alpha beta",
    "EQUIRECTANGULAR": "w h",
}
"""Parameter names of each camera model, in the order of COLMAP's model IDs. d1 to d3 are the
denominator coefficients of FULL_OPENCV, which must be 0."""
_LENS = {"f", "fl_x", "fl_y", "cx", "cy", "k1", "k2", "k3", "k4", "p1", "p2", "d1", "d2", "d3"}
READ = tuple(model for model, names in PARAMETERS.items() if _LENS.issuperset(names.split()))
"""Camera models that can be read."""
ALIASES = {"PERSPECTIVE": "OPENCV"}  # Names in JSON files.
PANORAMAS = ("EQUIRECT", "SPHERICAL", "PANORAM", "OMNI", "VR180", "LATLONG", "360")
"""Words in the names of camera models for 360-degree images."""
PERSPECTIVE = (
    "perspective images: nerfmac does not read 360-degree images, so first cut each image into "
    "several perspective images, for example with panorama_sfm of COLMAP or with `ns-process-data "
    "images --camera-type equirectangular` of nerfstudio"
)


def is_fisheye_model(model: str, where: str) -> bool:
    """Return whether `model` is a fisheye model. Raise `InputError` if it cannot be read. `where`
    is the position in the file, for the error message."""
    model = ALIASES.get(model.upper(), model)
    if any(word in model.upper() for word in PANORAMAS):
        raise InputError(f"{where}: the camera model is {model}; expected {PERSPECTIVE}")
    if model.upper() not in READ:
        raise InputError(
            f"{where}: the camera model {model} is not supported; expected one of "
            f"{', '.join(READ)}: undistort the images, for example with COLMAP's "
            "image_undistorter, which writes images and a model with PINHOLE cameras"
        )
    return "FISHEYE" in model.upper()
