"""Photographs and their cameras: one reader per format, all giving a `Scene`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.json_reader import read_fields
from nerfmac.scenes import blender, colmap, llff, polycam, record3d, transforms
from nerfmac.scenes.builtin import builtin_scene_path
from nerfmac.scenes.masks import masked
from nerfmac.scenes.record import SceneRecord
from nerfmac.scenes.scene import Frame, Scene, Views
from nerfmac.scenes.splits import NAMES, Splits

__all__ = ["Frame", "Scene", "Views", "builtin_scene_path", "holds_scene", "load_scene"]

log = logging.getLogger("nerfmac")

BLENDER_FILES = tuple(blender.file_name(split) for split in NAMES)

NEEDS_POSES = (
    "Photographs or a video alone do not say where the cameras stood: `nerfmac capture` finds that "
    "out and writes a transforms.json"
)


def load_scene(
    path: str | os.PathLike[str],
    *,
    test_every: int | None = None,
    downscale: int = 1,
    max_images: int | None = None,
    masks: bool = True,
) -> Scene:
    """Read a scene: a folder, or its transforms.json (or transforms_train.json) itself.

    In a folder with several formats, Blender's goes first, then transforms.json, COLMAP's and
    LLFF's. The folder of a COLMAP model, such as `scene/sparse/0`, and LLFF's poses_bounds.npy may
    be named themselves.

    With `test_every` None the scene keeps its own splits: Blender's files, or the lists such as
    `train_filenames` in a transforms.json. Without lists every 8th view is held out as "test".
    A number N holds out every Nth training view as "test" instead, and 0 none.

    `downscale` makes pictures as many times smaller along both sides, by averaging. Of each split
    at most `max_images` views are taken, spread evenly over it. With `masks`, what is black in a
    picture's mask is neither trained on nor evaluated: nerfstudio's `mask_path`, or a file of the
    picture's name in a folder `masks` beside the pictures or their folder.

    The JSON and the pictures' headers are checked here, before anything is decoded. Raises
    InputError that says what is wrong, in which file, and what is right.
    """
    if test_every is not None:
        checks.number("test_every", test_every, low=0, whole=True)
        test_every = int(test_every)
    checks.number("downscale", downscale, low=1, whole=True)
    if max_images is not None:
        checks.number("max_images", max_images, low=1, whole=True)
    path = Path(path).expanduser()
    read = _read(path, test_every)
    splits = {name: _fewer(frames, max_images) for name, frames in read.splits.items()}
    splits = {
        name: tuple(_reduced(f, int(downscale)) for f in each) for name, each in splits.items()
    }
    splits = masked(splits) if masks else _unmasked(splits)
    scene = replace(read, path=path, splits=splits, test_every=test_every)
    scene = replace(scene, downscale=int(downscale), max_images=max_images, masks=masks)
    _tell_what_is_odd(scene)
    return scene


def holds_scene(path: Path) -> bool:
    """Whether `path` is a folder in a format that `load_scene` reads, or a file of cameras.

    Raises InputError for a folder with several files of cameras.
    """
    if path.is_dir():
        return _reader(path) is not None
    return path.is_file() and path.suffix.lower() in (".json", ".npy")


def read_again(record: SceneRecord) -> Scene:
    """The scene of a `record`, read as it was; raises InputError if it was never in files."""
    if record.path is None:
        raise InputError("the run's scene was never in files: it cannot be read again")
    return load_scene(
        record.path,
        test_every=record.test_every,
        downscale=record.downscale,
        max_images=record.max_images,
        masks=record.masks,
    )


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


def _read(path: Path, test_every: int | None) -> Scene:
    if path.is_file():
        if path.suffix == ".npy":
            return llff.read_llff(path, test_every)
        if path.suffix.lower() != ".json":
            raise InputError(
                f"{path} is not a scene: expected a folder or a {_sought()}. {NEEDS_POSES}"
            )
        if path.name in BLENDER_FILES:
            return blender.read_blender(path.parent, test_every)
        return transforms.read_transforms(path, test_every)
    if not path.is_dir():
        raise InputError(f"{path} does not exist; expected the folder of a scene")
    if (read := _reader(path)) is not None:
        return read(test_every)
    state = "is empty" if not any(path.iterdir()) else "holds no scene"
    raise InputError(f"{path} {state}: looked for {_sought()}. {NEEDS_POSES}")


def _reader(folder: Path) -> Callable[[int | None], Scene] | None:
    """What reads the format that `folder` has, given `test_every`; None if it has none."""
    read: Callable[[int | None], Scene] | None = None
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
