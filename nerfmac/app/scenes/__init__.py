"""Scenes: photos with their cameras. `load_scene` reads all supported formats."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from nerfmac.app.scenes.assembly import assemble
from nerfmac.app.scenes.readers import holds_scene as holds_scene, is_run as is_run, read_scene
from nerfmac.app.scenes.scene import Frame as Frame, Scene as Scene
from nerfmac.common import InputError, log, user_path
from nerfmac.config.scenes import GivenSplit, SceneOptions

BUILTIN = "still_life"
"""Name of the small scene that the package includes, for a first run without photos."""


class Used(TypedDict, total=False):
    """Parts of a scene that can be ignored."""

    masks: bool
    depth: bool


def load_scene(
    path: str | os.PathLike[str],
    *,
    split: GivenSplit = None,
    extent: float | None = None,
    up: str | Sequence[float] | None = None,
    downscale: int = 1,
    max_images: int | None = None,
    **used: Unpack[Used],
) -> Scene:
    """Load a scene from a folder or a camera file.

    `path` is a scene folder, its `transforms.json` or `transforms_train.json`, the folder of a
    COLMAP model such as `scene/sparse/0`, or a `poses_bounds.npy` file (LLFF). If a folder contains
    several formats, the first one in this list is used: Blender, `transforms.json`, COLMAP, LLFF.
    JSON files and image headers are validated immediately. Images are decoded later.

    Args:
        path: Scene folder or camera file.
        split: Views to hold out as "test": a number N for every Nth view, a fraction such as 0.1
            for evenly spaced views, view names or a file that lists one name per line, or "none" to
            train on all views. By default, the splits in the scene files are used (Blender's files,
            or lists such as `train_filenames` in `transforms.json`). If the files contain no
            splits, the default is 8, or "none" for scenes with fewer than 8 views.
        extent: Side of the scene cube in scene units, in (0, 128]. By default, the value in the
            scene files or, if they specify none, an estimate. If the scene files do not specify a
            placement, one scene unit is the mean distance of the cameras from the scene center.
        up: Up direction in the coordinates of the input scene: an axis such as "x" or "-y", or
            three numbers. By default ("auto"), the value in the scene files or, if they specify
            none, an estimate.
        downscale: Downscaling factor of the images, an integer. Each block of `downscale` x
            `downscale` pixels is averaged.
        max_images: Maximum number of views of each split, evenly spaced.
        used: Whether to use the masks (`masks=False` ignores them) and the depth images
            (`depth=False` ignores them) of the scene. Black pixels of masks are excluded from
            training and evaluation. The mask of an image is its `mask_path` (nerfstudio), or a file
            with the same name in a folder `masks` next to the image or next to its folder.

    Returns:
        The scene with cameras in scene coordinates.

    Raises:
        InputError: If an option is invalid, or if the scene does not exist or is invalid.

    Examples:
        >>> nerfmac.load_scene(nerfmac.builtin_scene_path(), max_images=8)
        Scene('still_life', train: 8, val: 4, test: 8, 256x256, extent 1)
    """
    options = SceneOptions.of(
        split, up, extent=extent, downscale=downscale, max_images=max_images, **used
    )
    path = user_path(path)
    counter = _WarningCounter(logging.WARNING)
    log.addHandler(counter)
    try:
        scene = assemble(read_scene(path), path, options)
    finally:
        log.removeHandler(counter)
    return replace(scene, warnings=counter.count)


class _WarningCounter(logging.Handler):
    """Count of the logged warnings."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def read_again(record: Scene, path: Path | None = None) -> Scene:
    """Load a run's scene again, with the options, the placement, and the views of the run. `path`
    is the new path of a scene that has been moved. If the scene has other views or cameras than the
    run, `InputError` is raised."""
    path = path or record.path
    if path is None:
        raise InputError(
            "the run was trained on a scene in memory; pass it with Run.load(..., source=scene)"
        )
    if path == record.path and not path.exists():
        raise InputError(
            f"the scene of the run does not exist: {path}; restore it, or pass its new path "
            "with `nerfmac eval RUN --scene SCENE` or `nerfmac train SCENE --out RUN --resume`"
        )
    return assemble(read_scene(path), path, record.options, record)


def builtin_scene_path() -> Path:
    """Return the path of the built-in scene, a folder in Blender format.

    Returns:
        Path of the folder.

    Raises:
        InputError: If the folder does not exist.
    """
    package = Path(__file__).resolve().parents[2]
    # Wheels contain `data` in the package. In an editable install, it is next to the package.
    folders = [package / "data" / BUILTIN, package.parent / "data" / BUILTIN]
    for folder in folders:
        if folder.is_dir():
            return folder
    searched = " and ".join(str(folder) for folder in folders)
    raise InputError(f"the built-in scene was not found in {searched}; reinstall nerfmac")
