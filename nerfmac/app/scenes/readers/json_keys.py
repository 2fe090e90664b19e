"""Keys of JSON scene files that nerfmac reads, refuses, or ignores. Keys that change the meaning of
an image or a pose in other programs are refused or reported, so that no result is silently wrong.
"""

import re
from collections.abc import Sequence

from nerfmac.app.scenes.readers.camera_models import PERSPECTIVE
from nerfmac.common import Fields, log

SPLITS = ("train", "val", "test")
FRAME = {"file_path", "transform_matrix"}  # Keys of every frame.
MATRICES = ("K", "intrinsics", "intrinsic_matrix")
"""Keys of the intrinsics matrix [[fl_x, 0, cx], [0, fl_y, cy], [0, 0, 1]]."""
MISSPELLED = {"f1_x": "fl_x", "f1_y": "fl_y", "fx": "fl_x", "fy": "fl_y"}
_UNDISTORTED = "one of OpenCV's two camera models: undistort the images first"
_ALPHA = "images with an alpha channel, or masks"
REFUSED = {
    **dict.fromkeys(("latlong", "equirectangular"), PERSPECTIVE),
    **dict.fromkeys(("ftheta_p0", "fisheye_crop_radius"), _UNDISTORTED),
    **dict.fromkeys(("orthographic", "is_orthographic"), "a perspective camera"),
    **dict.fromkeys(("mask_color", "white_transparent", "black_transparent"), _ALPHA),
    "fix_premult": "images with straight alpha",
    "rolling_shutter": "a global shutter",
    **dict.fromkeys(("from_na", "from_mitsuba"), "poses with OpenGL axes"),
}
"""Unsupported keys that change the meaning of an image or a pose, with the supported alternatives.
They are accepted if their value is null, false, or 0."""
_AXES = "poses are always read with OpenGL camera axes (x right, y up, z backward)"
_MOTION = "motion during the exposure is not modeled"
_REGION = "set the region of the scene with --extent, or with aabb_scale in the file"
OPENGL = ("opengl", "blender", "nerfstudio", "nerf")  # Names of the axes that nerfmac reads.
REPORTED = {
    **dict.fromkeys(("aabb", "render_aabb", "scene_box"), _REGION),
    **dict.fromkeys(("camera_convention", "coordinate_convention", "convention"), _AXES),
    **dict.fromkeys(("coordinate_system", "coordinate_frame", "axes", "pose_format"), _AXES),
    **dict.fromkeys(("transform_matrix_start", "transform_matrix_end"), _MOTION),
    **dict.fromkeys(("k5", "k6", "s1", "s2", "s3", "s4", "b1", "b2"), "undistort the images first"),
    "sharpness_discard_threshold": "blurred images are used like the others",
    "enable_ray_loading": "rays are computed from the camera intrinsics",
    "envmap": "the background is learned from the images",
    "scene_scale": "use scale and offset",
}
"""Keys that are ignored although they change the result of other programs, with explanations. They
are reported unless their value is null, false, or 0."""
REPORTED_IF_VARYING = {
    **dict.fromkeys(("time", "time_id", "warp_id"), "the scene is reconstructed as static"),
    **dict.fromkeys(("exposure", "iso", "light_dir"), "use --refine.exposures for such images"),
}
"""Keys like those in `REPORTED` that have an effect only if they differ between frames."""
_READ = """frames val_frames test_frames train_filenames val_filenames test_filenames file_path
transform_matrix is_bad mask_path ply_file_path camera_model is_fisheye w h fl_x fl_y cx cy
camera_angle_x camera_angle_y k1 k2 k3 k4 p1 p2 aabb_scale scale offset up orientation_override
applied_transform applied_scale depth_file_path depth_unit_scale_factor depth_path
enable_depth_loading integer_depth_scale depth_integer_scale"""
_WITHOUT_EFFECT = """n_frames sharpness colmap_im_id rotation id name timestamp camera_id metadata
n_extra_learnable_dims has_mask"""
SYNONYMS = {"distort|dist_?coef|radial|tangential": "k1", "princip|optical_cent": "cx"}
"""Words in unknown keys with numbers that replace a known key. Such a key is refused if the known
key is missing."""
KNOWN = {*_READ.split(), *_WITHOUT_EFFECT.split(), *MATRICES, *MISSPELLED}
KNOWN |= {*REFUSED, *REPORTED, *REPORTED_IF_VARYING}


def check_keys(files: Sequence[Fields], frames: Sequence[Fields]) -> None:
    """Check the keys of the frames that are used, and of their files. Raise `InputError` for keys
    in `REFUSED`, and log a line for each key in `REPORTED` and for all unknown keys."""
    files = list({id(file): file for file in files}.values())
    where, every = files[0].where, [*files, *frames]
    for fields in every:
        for key, expected in REFUSED.items():
            if _has_effect(fields.values.get(key)):
                raise fields.wrong(key, expected)
    for key, explanation in REPORTED.items():
        if any(_has_effect(fields.values.get(key)) for fields in every):
            log.warning(f"{where}: {key} is ignored; {explanation}")
    for key, explanation in REPORTED_IF_VARYING.items():
        values = [frame.values.get(key) for frame in frames]
        if any(value != values[0] for value in values):
            log.warning(f"{where}: {key} is ignored; {explanation}")
    unknown = {key for fields in every for key in fields.values if key not in KNOWN}
    for fields in every:
        for key in sorted(unknown & fields.values.keys()):
            _refuse_synonym(key, fields, every)
    if unknown:
        log.info(f"{where}: unknown keys are ignored: {', '.join(sorted(unknown))}")


def _refuse_synonym(key: str, fields: Fields, every: Sequence[Fields]) -> None:
    """Raise `InputError` if the unknown `key` of `fields` contains frames, or camera intrinsics
    without the known key. Other keys usually repeat known ones, or describe the images."""
    value = fields.values[key]
    if isinstance(value, list) and any(isinstance(v, dict) and v.keys() >= FRAME for v in value):
        raise fields.wrong(key, "all frames in the lists frames, val_frames, and test_frames")
    for words, known in SYNONYMS.items():
        is_missing = not any(known in other for other in (*every, fields))
        if re.search(words, key, re.IGNORECASE) and is_missing and _has_number(value):
            raise fields.wrong(key, f"the keys fl_x, fl_y, cx, cy, k1, k2, p1, and p2, not {key}")


def _has_number(value: object) -> bool:
    """Return whether a value is, or contains, a number that is not 0."""
    if isinstance(value, list | dict):
        return any(map(_has_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and not isinstance(value, bool) and value != 0


def _has_effect(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_effect, value))
    return value.lower() not in OPENGL if isinstance(value, str) else bool(value)
