"""Readers that convert scene formats to a `ParsedScene`, and detection of the format."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.readers import colmap, llff, phones, transforms
from nerfmac.app.scenes.record import refuse_run
from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields, read_fields

PACKED = (".zip", ".r3d", ".tar", ".gz", ".7z")
"""File extensions of archives, including Record3D archives."""
BLENDER_FILES = tuple(transforms.file_name(split) for split in transforms.SPLITS)
SOUGHT = (
    f"{transforms.FILE_NAME} (instant-ngp, nerfstudio), {BLENDER_FILES[0]} (Blender), "
    f"sparse/0/cameras.bin or .txt (COLMAP), {llff.FILE_NAME} (LLFF), metadata (Record3D) or "
    "keyframes/cameras (Polycam)"
)
NEEDS_POSES = (
    "Photos or a video do not contain camera poses: estimate them with `nerfmac capture FOLDER` or "
    "`nerfmac capture VIDEO`, which writes a transforms.json"
)

log = logging.getLogger("nerfmac")


def read_scene(path: Path) -> ParsedScene:
    """Read the scene in a folder or camera file."""
    if path.is_file():
        if path.suffix == ".npy":
            return llff.read_llff(path)
        if path.suffix.lower() in PACKED:
            raise InputError(f"{path} is an archive; unpack it and pass the resulting folder")
        if path.suffix.lower() != ".json":
            raise InputError(
                f"{path} is not a scene: expected a folder or a {SOUGHT}. {NEEDS_POSES}"
            )
        if path.name in BLENDER_FILES:
            return transforms.read_blender(path.parent)
        return transforms.read_transforms(path, read_fields(path))
    refuse_run(path)
    if not path.is_dir():
        raise InputError(
            f"{path} does not exist in {Path.cwd()}; pass the folder of a scene or of photos, "
            "or a video"
        )
    if (read := reader_of(path)) is not None:
        return read()
    below = [entry for entry in sorted(path.iterdir()) if entry.is_dir() and reader_of(entry)]
    if below:
        raise InputError(f"{path} contains no scene, but its folder {below[0]} does; pass it")
    state = "is empty" if not any(path.iterdir()) else "contains no scene"
    raise InputError(f"{path} {state}: searched for {SOUGHT}. {NEEDS_POSES}")


def reader_of(folder: Path) -> Callable[[], ParsedScene] | None:
    """Return a function that reads the scene in `folder`, or None if the format is unknown."""
    read: Callable[[], ParsedScene] | None = None
    if (folder / BLENDER_FILES[0]).exists():
        read = partial(transforms.read_blender, folder)
    elif (path := folder / transforms.FILE_NAME).exists():
        read = partial(_read_transforms, path)
    elif (model := colmap.model_folder(folder)) is not None:
        read = partial(colmap.read_colmap, colmap.scene_folder(folder), model)
    elif (folder / llff.FILE_NAME).exists():
        read = partial(llff.read_llff, folder / llff.FILE_NAME)
    elif (metadata := phones.metadata_of(folder)) is not None:
        read = partial(phones.read_record3d, metadata)
    elif (keyframes := phones.keyframes_of(folder)) is not None:
        read = partial(phones.read_polycam, folder, *keyframes)
    elif (other := _other_json(folder)) is not None:
        read = partial(transforms.read_transforms, *other)
    return read


def _read_transforms(path: Path) -> ParsedScene:
    return transforms.read_transforms(path, read_fields(path))


def _other_json(folder: Path) -> tuple[Path, Fields] | None:
    """Return the only JSON file with `frames`, or None."""
    candidates: list[tuple[Path, Fields]] = []
    for path in sorted(folder.glob("*.json")):
        with suppress(InputError):
            file = read_fields(path)
            if isinstance(file.values.get("frames"), list):
                candidates.append((path, file))
    if len(candidates) > 1:
        names = ", ".join(path.name for path, _ in candidates)
        raise InputError(
            f"{folder} has no {transforms.FILE_NAME} and several camera files; pass one of them: "
            f"{names}"
        )
    for path, _ in candidates:
        log.warning(f"no {transforms.FILE_NAME} in {folder}; using {path.name}")
    return candidates[0] if candidates else None
