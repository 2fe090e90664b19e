"""Cameras from files in the scene coordinates of a run: a split's views and camera paths.

Path files of nerfmac and of instant-ngp are in scene coordinates. Those of nerfstudio are moved
by its dataparser_transforms.json.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nerfmac.app.paths import CameraPath
from nerfmac.app.paths.formats import read_path
from nerfmac.app.run.run import Run
from nerfmac.app.scenes.images import Header
from nerfmac.app.scenes.readers.json_frames import cameras_of
from nerfmac.app.scenes.readers.studio_space import TRANSFORMS, read_studio_space
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.common.json_reader import read_fields
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.placement import Placement

log = logging.getLogger("nerfmac")


def placement_of(run: Run) -> Placement:
    """The map from the coordinates of the scene's files to the run's scene coordinates.

    Raises `InputError` if neither the run nor its scene, read again, holds it.
    """
    if run.scene.placement is not None:
        return run.scene.placement
    unknown = "the run does not say where its scene's own coordinates lie"
    try:
        placement = SceneRecord.of(run.images()).placement
    except InputError as error:
        raise InputError(f"{unknown}: {error}") from error
    if placement is None:
        raise InputError(f"{unknown}, and nor does the scene: {run.scene.path}")
    return placement


def split_cameras(run: Run, split: str) -> Sequence[Camera]:
    """The cameras of `split`, "train" (refined) or "test"; no image is decoded or need exist.

    Raises `InputError` if the scene's files do not tell them.
    """
    if split == "train":
        return run.cameras
    if run.source is None and run.scene.path is None:
        raise InputError(f"the run's scene was never in files: its {split} views are not known")
    scene = run.images()
    if scene.splits.get(split):
        return [frame.camera for frame in scene.splits[split]]
    if cameras := _without_images(run, split):
        return cameras
    raise InputError(f"scene {scene.name!r} has no {split!r} views; take --path orbit")


def file_cameras(
    run: Run, file: str | Path, names: Collection[str] | None = None
) -> Sequence[Camera]:
    """The cameras of the frames in a scene's `file`, such as a transforms_test.json.

    The file is in the coordinates of the scene's files. Its images need not exist. `names`
    restricts the frames to those with such a `file_path`. Raises `InputError`.
    """
    placement, lens = placement_of(run), run.scene.cameras[0].lens
    photo = Header(lens.width, lens.height, has_alpha=False)
    cameras = cameras_of(read_fields(user_path(file)), photo, names)
    return [Camera(lens, placement.apply(pose)) for lens, pose in cameras]


def _without_images(run: Run, split: str) -> Sequence[Camera]:
    """The cameras of a split whose images do not exist, as the scene's JSON files list them."""
    at = Path(run.scene.path or "")
    folder = at if at.is_dir() else at.parent
    if (own := folder / f"transforms_{split}.json").is_file():
        return file_cameras(run, own)
    file = at if at.suffix.lower() == ".json" else folder / "transforms.json"
    if file.is_file() and (names := read_fields(file).texts(f"{split}_filenames", ())):
        return file_cameras(run, file, names)
    return []


def load_path(run: Run, file: str | Path, transforms: str | Path | None = None) -> CameraPath:
    """The camera path in the JSON `file`, in the coordinates of the run's scene.

    `transforms`: nerfstudio's dataparser_transforms.json, for a `file` of nerfstudio; by default
    the one beside `file`. Without any, positions are taken as scene coordinates, with a warning.

    Raises `InputError` for a file that is no camera path, for `transforms` with a path that is not
    nerfstudio's, and if nerfstudio's path needs a placement that `placement_of` does not find.
    """
    file = user_path(file)
    fields = read_fields(file)
    path = CameraPath(*read_path(fields))
    if "camera_path" not in fields:
        if transforms is not None:
            raise InputError(f"{file} is not nerfstudio's: {transforms} says nothing about it")
        return path
    beside = file.with_name(TRANSFORMS)
    if transforms is None and not beside.is_file():
        log.warning(
            "there is no %s beside %s, nor is one named: its positions are taken for those of the "
            "run's scene",
            *(TRANSFORMS, file),
        )
        return path
    scene = None if run.scene.path is None else Path(run.scene.path)
    space = read_studio_space(user_path(transforms or beside), scene)
    placement = placement_of(run)
    moved = [
        replace(key, pose=placement.apply(space.to_file(key.pose)).astype(np.float64))
        for key in path.keyframes
    ]
    return replace(path, keyframes=moved)
