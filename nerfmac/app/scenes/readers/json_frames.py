"""Reading of `frames` with poses and images in the JSON files of Blender and instant-ngp.

Poses are camera-to-file matrices with OpenGL axes, as in nerfmac. Keys that change the meaning of
an image or a pose in other programs are refused or reported, so that no result is silently wrong.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nerfmac.app.scenes.depth_images import DepthImage
from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import inspect_all
from nerfmac.app.scenes.parsed_scene import RIGID_WITHIN, PosedImage, rigid
from nerfmac.app.scenes.readers.intrinsics import MATRICES, MISSPELLED, PERSPECTIVE, lens_of, warn
from nerfmac.common import Fields, Float64Array, InputError, leads_out, log, spelled
from nerfmac.geometry import Lens

SPLITS = ("train", "val", "test")
FRAME = {"file_path", "transform_matrix"}  # Keys of every frame.
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
STUDIO_UNIT = 1e-3
"""Default of `depth_unit_scale_factor` in nerfstudio, for depth images in millimeters."""
POSE, FRAMES = "transform_matrix", "frames"


class Entry(NamedTuple):
    """Frame of a JSON file: its fields, the file with default values, its name, and its image."""

    fields: Fields
    file: Fields
    name: str
    image: Path


def entries_of(
    lists: Mapping[str, tuple[Fields, str]], search: ImageSearch
) -> tuple[list[Entry], dict[str, range], list[Path]]:
    """Return the frames of all splits, the indices of each split, and the images of the frames that
    are marked as bad. `lists` contains the file and the key of the frames of each split."""
    entries: list[Entry] = []
    splits, unused = {}, []
    for split, (file, key) in lists.items():
        try:
            given = _listed(file, search, key)
        except InputError as error:
            if split == "train" or key not in file:
                raise
            # Datasets often omit images, and `render --path` requires only the cameras.
            log.warning(f"{error}; without these images, there are no {split!r} views to evaluate")
            continue
        # For example, ScanNet++ marks blurred images as bad.
        bad = [entry for entry in given if entry.fields.values.get("is_bad")]
        if bad and len(bad) < len(given):
            count = f"{len(bad)} of {len(given)} frames of {file.where} are marked as bad (is_bad)"
            log.warning(f"{count} and are not used, such as {bad[0].name}")
            unused += [entry.image for entry in bad]
            given = [entry for entry in given if entry not in bad]
        splits[split] = range(len(entries), len(entries) + len(given))
        entries += given
    return entries, splits, unused


def _listed(file: Fields, search: ImageSearch, key: str) -> list[Entry]:
    """Return the frames in the list `key` with a pose and an existing image. Log a warning about
    the other frames."""
    frames, total = _posed(file, key), len(file.values[key])
    if not frames:
        where = f"{file.where}: {POSE}"
        raise InputError(f"{where} is null in all {total} {key}; expected 4x4 numbers")
    if len(frames) < total:
        count = f"{total - len(frames)} of {total} {key}"
        log.warning(f"{count} of {file.where} have no pose; using the other {len(frames)}")
    names = [fields.text("file_path") for fields in frames]
    entries = []
    for index, image in search.existing(names, file.where).items():
        fields, name = frames[index], names[index]
        fields = replace(fields, where=f"{fields.where} ({name})")
        entries.append(Entry(fields, file, Path(name).as_posix(), image))
    return entries


def images_of(entries: Sequence[Entry], folder: Path) -> list[PosedImage]:
    """Return the image of each frame, with its mask and its camera in coordinates of the file."""
    warned: set[str] = set()
    check_keys([entry.file for entry in entries], [entry.fields for entry in entries])
    poses = _poses([entry.fields for entry in entries])
    photos = inspect_all({index: entry.image for index, entry in enumerate(entries)})
    images = []
    for index, (fields, file, name, _) in enumerate(entries):
        lens = lens_of(fields, file, photos[index].size, warned)
        depth = _depth_of(fields, file, folder, warned)
        mask, where = file_of(fields, "mask_path", folder), fields.where
        posed = PosedImage.of(photos[index], where, lens, poses[index], name)
        images.append(posed._replace(depth=depth, mask=mask))
    return images


def file_of(frame: Fields, key: str, folder: Path) -> Path | None:
    """Return the file that a frame lists with `key`, or None. The file need not exist. `folder` is
    the folder of the JSON file."""
    if not frame.values.get(key):
        return None
    path = Path(os.path.normpath(folder / frame.text(key).replace("\\", "/")))
    if leads_out(path, folder):
        raise frame.wrong(key, f"a file in {folder}, or a symbolic link there to another folder")
    return spelled(path)


def _depth_of(frame: Fields, file: Fields, folder: Path, warned: set[str]) -> DepthImage | None:
    """Return the depth image that a frame lists, or None. `file` contains values for all frames.
    `warned` contains the kinds of warnings that have been logged for the file and is updated.

    nerfstudio lists `depth_file_path` for each frame, a PNG file with 16 bits or a .npy file. A
    stored value times `depth_unit_scale_factor` (by default 0.001, for millimeters) is the depth in
    units of the poses. instant-ngp and NeRFCapture list `depth_path`, a PNG file with 16 bits, and
    a stored value times `integer_depth_scale` is the depth in units of the poses. Without
    `integer_depth_scale`, or if `enable_depth_loading` is false, instant-ngp does not read depth
    images. NeRFCapture's offline mode writes the key `depth_integer_scale`. In all programs, depth
    is along the optical axis.
    """
    if frame.values.get("depth_file_path"):
        unit = _value("depth_unit_scale_factor", frame, file, STUDIO_UNIT)
        path = file_of(frame, "depth_file_path", folder)
    elif frame.values.get("depth_path"):
        unit = _value("depth_integer_scale", frame, file, 0.0)
        unit = _value("integer_depth_scale", frame, file, unit)
        path = file_of(frame, "depth_path", folder)
        if not file.flag("enable_depth_loading", default=True) or unit <= 0:
            why = "enable_depth_loading is false" if unit > 0 else "integer_depth_scale is missing"
            warn(file.where, f"depth_path is ignored, because {why}", warned)
            path = None
    else:
        return None
    return None if path is None else DepthImage(path, unit)


def _value(key: str, frame: Fields, file: Fields, default: float) -> float:
    return (frame if key in frame else file).number(key, default)


def cameras_of(
    file: Fields, photo: tuple[int, int], names: Collection[str] | None = None
) -> list[tuple[Lens, Float64Array]]:
    """Return the camera intrinsics and the camera-to-world pose (3, 4), in file coordinates with
    OpenGL axes, of the frames with a `file_path` in `names`, by default of all frames. The images
    need not exist. `photo` is the image size for files without one."""
    frames = _posed(file, FRAMES)
    if names is not None:
        frames = [fields for fields in frames if fields.values.get("file_path") in names]
    if not frames:
        raise InputError(f"{file.where}: no frame has a {POSE}; expected 4x4 numbers")
    check_keys([file], frames)
    warned: set[str] = set()
    lenses = [lens_of(fields, file, photo, warned) for fields in frames]
    return list(zip(lenses, _poses(frames), strict=True))


def _posed(file: Fields, key: str) -> list[Fields]:
    """Return the frames in the list `key` whose pose is not null."""
    return [frame for frame in file.objects(key) if POSE not in frame or not frame.is_null(POSE)]


def _poses(frames: Sequence[Fields]) -> list[Float64Array]:
    """Return the camera-to-world poses (3, 4) of frames, with exactly orthonormal rotations.

    If a similarity transform of the scene has scaled all rotations by the same factor, the factor
    is removed. If all determinants are negative, the file has left-handed axes. In this case, the
    poses remain reflections, and `Placement.mirrored` corrects them later.
    """
    matrices = [_matrix_of(fields) for fields in frames]
    determinants = np.array([np.linalg.det(matrix[:, :3]) for matrix in matrices])
    scales, mirrored = np.cbrt(np.abs(determinants)), bool((determinants < 0).all())
    scale = float(np.median(scales))
    if scale > 0 and abs(scale - 1) > RIGID_WITHIN and np.ptp(scales) < RIGID_WITHIN * scale:
        scaled = f"the rotations of all {len(frames)} poses are scaled by {scale:.4g}"
        log.warning(f"{scaled}, as in {frames[0].where}; removing the scale")
        matrices = [np.c_[matrix[:, :3] / scale, matrix[:, 3:]] for matrix in matrices]
    poses = [
        rigid(matrix, f"{fields.where}: {POSE}", mirrored=mirrored)
        for matrix, fields in zip(matrices, frames, strict=True)
    ]
    if mirrored:
        log.warning(
            f"all {len(frames)} poses are reflections, as in {frames[0].where}; assuming "
            "left-handed axes in the file and mirroring x. If the cameras look away from the "
            "scene, one axis of each camera is wrong"
        )
    return poses


def _matrix_of(fields: Fields) -> Float64Array:
    matrix = np.array(fields.table(POSE, rows=(3, 4), columns=4))
    if not np.allclose(matrix[3:], (0, 0, 0, 1), atol=1e-6):
        where, row = f"{fields.where}: the last row of {POSE}", matrix[3].tolist()
        raise InputError(f"{where} is {row}; expected [0, 0, 0, 1]")
    return matrix[:3]


def check_keys(files: Sequence[Fields], frames: Sequence[Fields]) -> None:
    """Check the keys of the frames that are used, and of their files. Raise `InputError` for keys
    in `REFUSED`, and log a line for each key in `REPORTED` and for all unknown keys."""
    files = list({id(file): file for file in files}.values())
    where, every = files[0].where, [*files, *frames]
    for fields in every:
        for key, expected in REFUSED.items():
            if _has_effect(fields.values.get(key)):
                raise fields.wrong(key, expected)
    ignored = [key for key in REPORTED if any(_has_effect(f.values.get(key)) for f in every)]
    values = {key: [frame.values.get(key) for frame in frames] for key in REPORTED_IF_VARYING}
    ignored += [key for key, some in values.items() if any(value != some[0] for value in some)]
    for key in ignored:
        log.warning(f"{where}: {key} is ignored; {(REPORTED | REPORTED_IF_VARYING)[key]}")
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
