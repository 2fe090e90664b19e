"""Photographs and their cameras: one reader per format, all giving a `Scene`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.common.json_reader import read_fields
from nerfmac.scenes import blender, colmap, llff, polycam, record3d, transforms
from nerfmac.scenes.builtin import builtin_scene_path
from nerfmac.scenes.masks import masked
from nerfmac.scenes.options import GivenSplit, SceneOptions, split_of, up_of
from nerfmac.scenes.record import SceneRecord, refuse_run
from nerfmac.scenes.scene import Frame, Scene, Views
from nerfmac.scenes.splits import NAMES, Splits

__all__ = ["Frame", "Scene", "Views", "builtin_scene_path", "holds_scene", "load_scene"]

log = logging.getLogger("nerfmac")

BLENDER_FILES = tuple(blender.file_name(split) for split in NAMES)

PACKED = (".zip", ".r3d", ".tar", ".gz", ".7z")
"""Endings of archives, Record3D's among them."""

NEEDS_POSES = (
    "Photographs or a video alone do not say where the cameras stood: `nerfmac capture` finds that "
    "out and writes a transforms.json"
)


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

    In a folder with several formats, Blender's goes first, then transforms.json, COLMAP's and
    LLFF's. The folder of a COLMAP model, such as `scene/sparse/0`, and LLFF's poses_bounds.npy may
    be named themselves.

    Args:
        split: which views are held out as "test", of those that are else trained on: a number N,
            every Nth; a fraction such as 0.1, spread evenly; names of views, or of a file that
            lists them, one a line; 0 or "none", none. By default the scene keeps its own splits,
            Blender's files or the lists such as `train_filenames` in a transforms.json, and without
            any every 8th view is held out.
        extent: side of the cube that is trained, in scene units, in place of what the scene's files
            say or what is estimated: above 0 and up to 128. Where the files do not place the scene,
            cameras are one unit away from its middle in the mean.
        up: the direction to the sky in the coordinates of the scene's files, in place of theirs or
            the estimated one ("auto"): "x", "-y" and so on, or three numbers.
        downscale: how many times smaller pictures become along both sides, by averaging.
        max_images: of each split at most so many views are taken, spread evenly over it.
        masks: whether what is black in a picture's mask is left out of training and evaluation:
            nerfstudio's `mask_path`, or a file of the picture's name in a folder `masks` beside the
            pictures or their folder.

    The JSON and the pictures' headers are checked here, before anything is decoded. Raises
    InputError that says what is wrong, in which file, and what is right.
    """
    how = downscale, max_images, masks
    options = SceneOptions(split_of(split), extent, up_of(up), *how)
    path = user_path(path)
    scene = _read(path, options)
    splits = {name: _fewer(frames, max_images) for name, frames in scene.splits.items()}
    splits = {
        name: tuple(_reduced(f, int(downscale)) for f in each) for name, each in splits.items()
    }
    splits = masked(splits) if masks else _unmasked(splits)
    scene = replace(_in_cube(scene, extent), path=path, splits=splits)
    _tell_what_is_odd(scene)
    return scene


def holds_scene(path: Path) -> bool:
    """Whether `path` is a folder in a format that `load_scene` reads, or a file of cameras.

    Raises InputError for a folder with several files of cameras.
    """
    if path.is_dir():
        return _reader(path) is not None
    return path.is_file() and path.suffix.lower() in (".json", ".npy")


def recorded_path(record: SceneRecord) -> Path:
    """Where the scene of a run's `record` is; raises InputError if it is in no files now."""
    if record.path is None:
        raise InputError("the run's scene was never in files: it cannot be read again")
    if not Path(record.path).exists():
        raise InputError(
            f"the run's scene, {record.path}, is not there any more; put it back, or name where it "
            "is now: `nerfmac eval RUN --scene SCENE`, `nerfmac train SCENE --out RUN --resume`"
        )
    return Path(record.path)


def read_again(record: SceneRecord) -> Scene:
    """The scene of a `record`, read as it was; raises InputError if it is in no files now."""
    return load_scene(recorded_path(record), **vars(record.options))


def _in_cube(scene: Scene, extent: float | None) -> Scene:
    """The scene with a cube of the side that was asked for, if one was; says so in a line."""
    if extent is None or extent == scene.extent:
        return scene
    log.info("the cube of %s has the side %g, in place of %g", scene.name, extent, scene.extent)
    placement = scene.placement and scene.placement._replace(extent=extent)
    return replace(scene, extent=extent, placement=placement)


def _fewer(frames: tuple[Frame, ...], most: int | None) -> tuple[Frame, ...]:
    if most is None or len(frames) <= most:
        return frames
    return tuple(frames[index * len(frames) // most] for index in range(most))


def _unmasked(splits: Splits) -> Splits:
    return {name: tuple(replace(f, mask=None) for f in each) for name, each in splits.items()}


def _reduced(frame: Frame, factor: int) -> Frame:
    lens = frame.camera.lens
    if factor == 1:
        return frame
    if factor > min(lens.width, lens.height):
        raise InputError(
            f"downscale is {factor}; {frame.name} is {lens.width}x{lens.height} pixels"
        )
    camera = replace(frame.camera, lens=lens.reduced(factor))
    return replace(frame, camera=camera, reduce=factor)


def _tell_what_is_odd(scene: Scene) -> None:
    """Say, a line each, what a user may not expect of pictures that were read as they are."""
    train = {frame.picture for frame in scene.splits["train"]}
    test = [frame.picture for frame in scene.splits.get("test", ())]
    shared = sum(picture in train for picture in test)
    if shared:
        log.warning(
            "%d of %d test pictures of %s are trained on too: their quality says little",
            *(shared, len(test), scene.name),
        )
    _tell_of_links(scene)


def _tell_of_links(scene: Scene) -> None:
    """Say in a line how many pictures and masks are links that lead out of the scene's folder."""
    frames = [frame for some in scene.splits.values() for frame in some]
    files = {f for frame in frames for f in (frame.picture, frame.mask) if isinstance(f, Path)}
    if scene.path is None or not files:
        return
    # A model's folder may be named, whose pictures lie beside it.
    folder = Path(os.path.commonpath([os.path.abspath(file) for file in (scene.path, *files)]))
    real = {file: file.resolve() for file in sorted(files)}
    outside = [file for file in real if not real[file].is_relative_to(folder.resolve())]
    if outside:
        log.warning(
            "%d of %d pictures and masks of %s are read from outside its folder, through links "
            "such as %s to %s",
            *(len(outside), len(files), scene.name, outside[0], real[outside[0]]),
        )


def _read(path: Path, options: SceneOptions) -> Scene:
    if path.is_file():
        if path.suffix == ".npy":
            return llff.read_llff(path, options)
        if path.suffix.lower() in PACKED:
            raise InputError(f"{path} is packed: unpack it, and name the folder that comes of it")
        if path.suffix.lower() != ".json":
            raise InputError(
                f"{path} is not a scene: expected a folder or a {_sought()}. {NEEDS_POSES}"
            )
        if path.name in BLENDER_FILES:
            return blender.read_blender(path.parent, options)
        return transforms.read_transforms(path, options)
    refuse_run(path)
    if not path.is_dir():
        raise InputError(f"{path} does not exist; expected the folder of a scene")
    if (read := _reader(path)) is not None:
        return read(options)
    below = [each for each in sorted(path.iterdir()) if each.is_dir() and holds_scene(each)]
    if below:
        raise InputError(f"{path} holds no scene itself, but {below[0]} does: name that")
    state = "is empty" if not any(path.iterdir()) else "holds no scene"
    raise InputError(f"{path} {state}: looked for {_sought()}. {NEEDS_POSES}")


def _reader(folder: Path) -> Callable[[SceneOptions], Scene] | None:
    """What reads the format that `folder` has, given its options; None if it has none."""
    read: Callable[[SceneOptions], Scene] | None = None
    if (folder / BLENDER_FILES[0]).exists():
        read = partial(blender.read_blender, folder)
    elif (folder / transforms.FILE_NAME).exists():
        read = partial(transforms.read_transforms, folder / transforms.FILE_NAME)
    elif (model := colmap.model_folder(folder)) is not None:
        read = partial(colmap.read_colmap, colmap.scene_folder(folder), model)
    elif (folder / llff.FILE_NAME).exists():
        read = partial(llff.read_llff, folder / llff.FILE_NAME)
    elif (metadata := record3d.metadata_of(folder)) is not None:
        read = partial(record3d.read_record3d, metadata)
    elif (keyframes := polycam.keyframes_of(folder)) is not None:
        read = partial(polycam.read_polycam, folder, *keyframes)
    elif (other := _other_json(folder)) is not None:
        read = partial(transforms.read_transforms, other)
    return read


def _other_json(folder: Path) -> Path | None:
    """The one JSON file of a capture that has another name; raises InputError if there are more."""
    candidates = []
    for path in sorted(folder.glob("*.json")):
        with suppress(InputError):
            if isinstance(read_fields(path).values.get("frames"), list):
                candidates.append(path)
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise InputError(
            f"{folder} has no {transforms.FILE_NAME} but several files of cameras; name which of "
            f"them: {names}"
        )
    if candidates:
        given = transforms.FILE_NAME, folder, candidates[0].name
        log.warning("there is no %s in %s; %s is read", *given)
    return candidates[0] if candidates else None


def _sought() -> str:
    return (
        f"{transforms.FILE_NAME} (instant-ngp, nerfstudio), {BLENDER_FILES[0]} (Blender), "
        f"sparse/0/cameras.bin or .txt (COLMAP), {llff.FILE_NAME} (LLFF), metadata (Record3D) or "
        "keyframes/cameras (Polycam)"
    )
