"""JSON formats of the NeRF authors (Blender), instant-ngp, nerfstudio, and NeRFCapture.

The Blender format (Mildenhall et al. 2020) has `transforms_train.json`, optional `_val` and
`_test`, `camera_angle_x` in radians, and `file_path` without a file extension. The up direction is
z, unless the training file contains the key `up` of instant-ngp.

The other programs write one `transforms.json` for all frames. Intrinsics are in pixels of a `w` x
`h` image, and frames can override them. Frames without an image are skipped, because published
captures list images that they do not contain.

`read_studio_space` reads the transform from file coordinates to the scene coordinates of
nerfstudio, scale * (R position + t), in `dataparser_transforms.json` (`transform` = [R | t],
`scale`) next to its trained model (`nerfstudio_dataparser.py` in nerfstudio). If
`transforms.json` contains `applied_transform` or `applied_scale`, the position is in the
coordinates before this transform and this scale were applied, so `transforms.json` is also needed.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage
from nerfmac.app.scenes.placement import UP, estimated_up, unit
from nerfmac.app.scenes.ply_points import read_ply_points
from nerfmac.app.scenes.readers import json_frames
from nerfmac.app.scenes.readers.colmap import points_beside
from nerfmac.common import Fields, Float64Array, InputError, log, name_key, read_fields
from nerfmac.config.scenes import MAX_EXTENT
from nerfmac.geometry import Direction, Placement

USUAL_DISTANCES = 0.7, 3.0
"""Plausible median distances from the cube center to the cameras, in scene units, with the default
placement of instant-ngp (typically 1.3). For other distances, a placement is fitted."""
DEFAULT_SCALE, DEFAULT_OFFSET = 0.33, 0.5
"""Defaults of instant-ngp, chosen for the Blender scenes of 2020."""


def file_name(split: str) -> str:
    """Return the name of the camera file of a split, such as `transforms_train.json`."""
    return f"transforms_{split}.json"


def read_blender(folder: Path) -> ParsedScene:
    """Read the scene in a folder with Blender files."""
    # Images of different splits have the same file names, so the name of the parent folder must
    # match too.
    files = {
        split: (read_fields(folder / file_name(split)), json_frames.FRAMES)
        for split in json_frames.SPLITS
        if split == "train" or (folder / file_name(split)).exists()
    }
    entries, splits, unused = json_frames.entries_of(files, ImageSearch(folder, tail=2))
    train, images = files["train"][0], json_frames.images_of(entries, folder)
    return ParsedScene(
        source=train.where,
        folder=folder,
        images=images,
        up=up_of(train),
        placement=_placement(train, images),
        splits=splits,
        unused=unused,
    )


def is_placed(file: Fields) -> bool:
    """Return whether the file contains instant-ngp's keys for its placement in scene space."""
    return any(key in file for key in ("aabb_scale", "scale", "offset"))


def placement_of(file: Fields) -> Placement:
    """Return the placement of a JSON file: the transform from file to scene coordinates. The
    placement is determined by the keys `scale`, `offset` (one or three numbers), and `aabb_scale`.
    Missing keys have the default values of instant-ngp."""
    extent = file.number("aabb_scale", 1.0, above=0)
    if extent > MAX_EXTENT:
        raise file.wrong("aabb_scale", f"a number above 0 and up to {MAX_EXTENT:g}")
    scale = file.number("scale", DEFAULT_SCALE, above=0)
    if isinstance(file.values.get("offset"), list):
        offset = np.array(file.numbers("offset", 3))
    else:
        offset = np.full(3, file.number("offset", DEFAULT_OFFSET))
    return Placement(scale, offset, extent)


def up_of(file: Fields, poses: Sequence[Float64Array] = ()) -> Direction:
    """Return the up direction of a file as a unit vector in the coordinates of the file.

    If instant-ngp's key `up` exists, the result is its value. If nerfstudio's key
    `orientation_override` is "none", the poses are upright, and the result is the z axis.
    Otherwise, the direction is estimated from the camera-to-world `poses` (3, 4). If there are no
    poses, the result is the z axis. nerfstudio's `applied_transform` has no effect, because it only
    documents how the poses were changed.
    """
    if "up" in file:
        up = file.numbers("up", 3)
        if not any(up):
            raise file.wrong("up", "three numbers that are not all zero")
        return unit(up)
    if not poses or file.values.get("orientation_override") == "none":
        return UP
    return estimated_up(np.stack(poses))


def _placement(file: Fields, images: list[PosedImage]) -> Placement | None:
    """Return the placement of the file. If the file specifies none, return the default placement of
    instant-ngp, or None if this placement does not fit the cameras."""
    usual = placement_of(file)
    if is_placed(file):
        return usual
    eyes = np.stack([usual.apply(image.pose)[:, 3] for image in images])
    distance = float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
    if USUAL_DISTANCES[0] < distance < USUAL_DISTANCES[1]:
        return usual
    distant = f"the cameras of {file.where} are {distance / usual.scale:.3g} units from the origin"
    log.warning(f"{distant} instead of about 4; using the cameras to center and scale the scene")
    return None


FILE_NAME = "transforms.json"

TRANSFORMS = "dataparser_transforms.json"
ROTATION_WITHIN = 1e-3
"""Maximum entry of |R^T R - I| that counts as a rounding error of float32 rotations R."""


def read_transforms(path: Path) -> ParsedScene:
    """Read the scene that a `transforms.json` describes, in file coordinates."""
    search, file = ImageSearch(path.parent), read_fields(path)
    # ScanNet++ lists the test views separately, in `test_frames`.
    lists = {"train": (file, json_frames.FRAMES)}
    for split in json_frames.SPLITS[1:]:
        if file.values.get(key := f"{split}_{json_frames.FRAMES}"):
            lists[split] = file, key
    entries, splits, unused = json_frames.entries_of(lists, search)
    if len(splits) == 1:
        entries.sort(key=lambda entry: entry.name)
    images = json_frames.images_of(entries, path.parent)
    listed_splits = _listed_splits(file, [entry.name for entry in entries])
    listed = _points_of(file, path.parent)
    points, tracks = points_beside(path.parent, images)
    return ParsedScene(
        source=str(path),
        folder=path.resolve().parent,
        images=images,
        placement=placement_of(file) if is_placed(file) else None,
        up=up_of(file, [image.pose for image in images]),
        points=points if listed is None else listed,
        splits=listed_splits or (splits if len(splits) > 1 else None),
        tracks=tracks,
        unused=unused,
        # Structure from motion writes points, and its poses have a scale of their own.
        is_metric=points is None and listed is None,
    )


def _points_of(file: Fields, folder: Path) -> Float64Array | None:
    """Return the sparse points (n, 3) of nerfstudio, in the coordinates of its poses."""
    if not file.values.get("ply_file_path"):
        return None
    problem = f"{file.where}: ply_file_path {file.text('ply_file_path')} does not exist"
    try:
        path = json_frames.file_of(file, "ply_file_path", folder)
        if path and os.path.isfile(path):
            return read_ply_points(path)
    except InputError as error:
        problem = f"{error}; estimating the scene size from the cameras only"
    log.warning(problem)
    return None


def _listed_splits(file: Fields, names: Sequence[str]) -> dict[str, list[int]] | None:
    """Return the splits that nerfstudio's lists, such as `train_filenames`, specify, as indices
    into `names`. The result is None if the file contains no lists.

    Frames that are not in a list belong to no split. Frames without an image are ignored, even if a
    list contains them. `names` contains the values of `file_path` of the frames with an image.
    """
    keys = {split: f"{split}_filenames" for split in json_frames.SPLITS}
    if not any(key in file for key in keys.values()):
        return None
    index_of = {key(name): index for key in (name_key, str) for index, name in enumerate(names)}
    frames = file.objects("frames")
    known = {name_key(Path(str(frame.values.get("file_path"))).as_posix()) for frame in frames}
    splits = {}
    for split, key in keys.items():
        listed = [Path(name).as_posix() for name in file.texts(key, ())]
        for name in listed:
            if name_key(name) not in known:
                found = f"{key} contains {name!r}, but no frame has this file_path"
                raise InputError(f"{file.where}: {found}; use a name such as {names[0]!r}")
        indices = {index_of.get(name, index_of.get(name_key(name))) for name in listed}
        chosen = sorted(index for index in indices if index is not None)
        if chosen:
            splits[split] = chosen
    if "train" not in splits:
        reason = f"{keys['train']} is missing or lists no frame with an image"
        advice = f"list names such as {names[0]!r}"
        raise InputError(f"{file.where}: no training views remain, because {reason}; {advice}")
    return splits


class StudioSpace(NamedTuple):
    """Transform to nerfstudio coordinates, scale * (rotation @ file position + offset)."""

    rotation: Float64Array  # (3, 3)
    offset: Float64Array  # (3,)
    scale: float

    def to_file(self, pose: npt.NDArray[np.floating[Any]]) -> Float64Array:
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
