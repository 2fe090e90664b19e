"""Photos and their cameras: `load_scene` reads every format into a `Scene`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nerfmac.app.scenes.options import (
    GivenSplit,
    SceneOptions,
    split_of,
    up_of,
)
from nerfmac.app.scenes.parsed_scene import assemble
from nerfmac.app.scenes.readers import read_scene, reader_of
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.app.scenes.scene import Frame, Scene
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.geometry.views import Views

__all__ = ["Frame", "Scene", "Views", "builtin_scene_path", "holds_scene", "load_scene"]

BUILTIN = "still_life"
"""The small scene that comes with the package, for a first run without any photos."""


def load_scene(
    path: str | os.PathLike[str],
    *,
    split: GivenSplit = None,
    extent: float | None = None,
    up: str | Sequence[float] | None = None,
    downscale: int = 1,
    max_images: int | None = None,
    masks: bool = True,
) -> Scene:
    """Read a scene: a folder, or its transforms.json (or transforms_train.json) itself.

    In a folder with several formats the first of these is read: Blender's, transforms.json,
    COLMAP's, LLFF's. `path` may also be the folder of a COLMAP model, such as `scene/sparse/0`, or
    LLFF's poses_bounds.npy.

    Args:
        split: views to hold out as "test" instead of training on them: a number N for every Nth; a
            fraction such as 0.1, spread evenly; names of views, or a file that lists them, one a
            line; 0 or "none" for none. By default the scene keeps its own splits (Blender's
            files, or lists such as `train_filenames` in a transforms.json); without any, every 8th
            view is held out.
        extent: side of the trained cube in scene units, above 0 and up to 128, in place of the
            files' or the estimated one. If the files do not place the scene, the cameras' mean
            distance from its center is one unit.
        up: the direction to the sky in the coordinates of the scene's files, in place of the files'
            or the estimated one ("auto"): "x", "-y" and so on, or three numbers.
        downscale: factor by which images shrink along both sides, by averaging.
        max_images: most views of each split; they are taken evenly over it.
        masks: whether training and evaluation ignore the black pixels of a image's mask:
            nerfstudio's `mask_path`, or a file with the image's name in a folder `masks` next to
            the images or to their folder.

    The JSON and the images' headers are checked here, before anything is decoded. Raises
    InputError that says what is wrong, in which file, and what is right.

    >>> nerfmac.load_scene(nerfmac.builtin_scene_path(), max_images=8)
    Scene('still_life', train: 8, val: 4, test: 8, 256x256, extent 1)
    """
    options = SceneOptions(
        split=split_of(split),
        extent=extent,
        up=up_of(up),
        downscale=downscale,
        max_images=max_images,
        masks=masks,
    )
    path = user_path(path)
    return assemble(read_scene(path), path, options)


def holds_scene(path: Path) -> bool:
    """Return whether `path` is a folder in a format that `load_scene` reads, or a file of cameras.

    Raises InputError for a folder with several files of cameras.
    """
    if path.is_dir():
        return reader_of(path) is not None
    return path.is_file() and path.suffix.lower() in (".json", ".npy")


def recorded_path(record: SceneRecord) -> Path:
    """Return the path of a run's scene; raises InputError if it has none or its files are gone."""
    if record.path is None:
        raise InputError("the run's scene was never in files; give it: Run.load(..., source=scene)")
    if not Path(record.path).exists():
        raise InputError(
            f"the run's scene, {record.path}, is not there any more; put it back, or name where it "
            "is now: `nerfmac eval RUN --scene SCENE`, `nerfmac train SCENE --out RUN --resume`"
        )
    return Path(record.path)


def read_again(record: SceneRecord) -> Scene:
    """Read a run's scene with the run's options; raises InputError if its files are gone."""
    return load_scene(recorded_path(record), **vars(record.options))


def builtin_scene_path() -> Path:
    """Return the folder of the built-in scene, in Blender's format; InputError if it is absent."""
    package = Path(__file__).resolve().parents[2]
    # A wheel carries `data` inside the package; an editable install finds it next to the package.
    folders = [package / "data" / BUILTIN, package.parent / "data" / BUILTIN]
    for folder in folders:
        if folder.is_dir():
            return folder
    looked = " and ".join(str(folder) for folder in folders)
    raise InputError(f"the built-in scene is missing: looked for {looked}; install nerfmac again")
