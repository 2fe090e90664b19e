"""Cameras and camera paths from files, in scene coordinates of a run. Path files of nerfmac and
instant-ngp use scene coordinates. Path files of nerfstudio are transformed with its file
`dataparser_transforms.json`."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nerfmac.app.paths.camera_path import CameraPath, read_path
from nerfmac.app.run.run import Run
from nerfmac.app.scenes.readers.json_frames import cameras_of
from nerfmac.app.scenes.readers.transforms import TRANSFORMS, read_studio_space
from nerfmac.common import InputError, log, read_fields, user_path
from nerfmac.geometry import Camera


def split_cameras(run: Run, split: str) -> Sequence[Camera]:
    """Return the cameras of a split in scene coordinates. The cameras of `train` are refined if the
    run refines cameras. The images are not decoded, and their files may be missing."""
    if split == "train":
        return run.cameras
    scene = run.source or run.scene
    if scene.splits.get(split):
        return scene.cameras(split)
    if cameras := _without_images(run, split):
        return cameras
    raise InputError(f"scene {scene.name!r} has no {split!r} views; use --path orbit")


def file_cameras(
    run: Run, file: str | Path, names: Collection[str] | None = None
) -> Sequence[Camera]:
    """Return the cameras of a scene file, such as `transforms_test.json`, in scene coordinates.
    `names` are the values of `file_path` of the frames to return, by default of all frames. The
    images may be missing."""
    placement, lens = run.scene.placement, run.scene.cameras("train")[0].lens
    cameras = cameras_of(read_fields(user_path(file)), (lens.width, lens.height), names)
    return [Camera(lens, placement.apply(pose)) for lens, pose in cameras]


def _without_images(run: Run, split: str) -> Sequence[Camera]:
    """Return the cameras of a split from the JSON files of the scene."""
    if (path := run.scene.path) is None:
        return []
    folder = path if path.is_dir() else path.parent
    if (split_file := folder / f"transforms_{split}.json").is_file():
        return file_cameras(run, split_file)
    file = path if path.suffix.lower() == ".json" else folder / "transforms.json"
    if file.is_file() and (names := read_fields(file).texts(f"{split}_filenames", ())):
        return file_cameras(run, file, names)
    return []


def load_path(run: Run, file: str | Path, transforms: str | Path | None = None) -> CameraPath:
    """Load a camera path of nerfmac, instant-ngp, or nerfstudio, in scene coordinates of a run.

    For a nerfstudio path, the default of `transforms` is the `dataparser_transforms.json` next to
    `file`. Without this file, positions are interpreted as scene coordinates and a warning is
    logged.
    """
    file = user_path(file)
    fields = read_fields(file)
    path = read_path(fields)
    if "camera_path" not in fields:
        if transforms is not None:
            raise InputError(
                f"{file} is not a nerfstudio path, so {transforms} cannot be applied to it; remove "
                "--transforms"
            )
        return path
    default = file.with_name(TRANSFORMS)
    if transforms is None and not default.is_file():
        log.warning(
            "no %s next to %s; interpreting its positions as scene coordinates of the run. Pass "
            "the file with --transforms if the path looks wrong",
            *(TRANSFORMS, file),
        )
        return path
    space = read_studio_space(user_path(transforms or default), run.scene.path)
    placement = run.scene.placement
    moved = [
        replace(key, pose=placement.apply(space.to_file(key.pose)).astype(np.float64))
        for key in path.keyframes
    ]
    return replace(path, keyframes=moved)
