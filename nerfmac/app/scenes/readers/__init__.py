"""Readers that convert scene formats to a `ParsedScene`, and detection of the format."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from nerfmac.app.scenes.parsed_scene import ParsedScene
from nerfmac.app.scenes.readers import (
    colmap,
    llff,
    neus,
    nsvf,
    polycam,
    record3d,
    stray_scanner,
    transforms,
    tum_rgbd,
)
from nerfmac.app.scenes.readers.unread import refuse_unread as refuse_unread, unread_format
from nerfmac.app.scenes.record import refuse_run
from nerfmac.common import InputError, read_fields

PACKED = (".zip", ".tar", ".gz", ".7z")
"""File extensions of archives that must be unpacked first."""
BLENDER_FILES = tuple(transforms.file_name(split) for split in transforms.SPLITS)
SOUGHT = (
    f"{transforms.FILE_NAME} (instant-ngp, nerfstudio), {BLENDER_FILES[0]} (Blender), "
    f"sparse/0/cameras.bin or .txt (COLMAP), {llff.FILE_NAME} (LLFF), metadata (Record3D), "
    f"keyframes/cameras (Polycam), {stray_scanner.POSES} (Stray Scanner), {tum_rgbd.POSES} (TUM "
    f"RGB-D), {nsvf.INTRINSICS} (NSVF) or {neus.FILE_NAMES[0]} (NeuS)"
)
NEEDS_POSES = (
    "Photos or a video do not contain camera poses: estimate them with `nerfmac capture FOLDER` or "
    "`nerfmac capture VIDEO`, which writes a transforms.json"
)

log = logging.getLogger("nerfmac")


def read_scene(path: Path) -> ParsedScene:
    """Read the scene in a folder or camera file, with the points that `inspect_scene` stored."""
    parsed = _read(path)
    if parsed.tracks is None:
        folder = parsed.folder / colmap.MATCHED_POINTS
        points, tracks = colmap.points_beside(folder, parsed.images)
        parsed = parsed._replace(tracks=tracks)
        if parsed.points is None:
            parsed = parsed._replace(points=points)
    return parsed


def _read(path: Path) -> ParsedScene:
    if path.is_file():
        if path.suffix == ".npy":
            return llff.read_llff(path)
        if path.suffix == ".npz":
            return neus.read_neus(path)
        if path.suffix.lower() == record3d.ARCHIVE:
            return record3d.read_record3d_archive(path)
        if path.suffix.lower() in PACKED:
            raise InputError(f"{path} is an archive; unpack it and pass the resulting folder")
        if path.suffix.lower() != ".json":
            raise InputError(
                f"{path} is not a scene: expected a folder or a {SOUGHT}. {NEEDS_POSES}"
            )
        if path.name in BLENDER_FILES:
            return transforms.read_blender(path.parent)
        return transforms.read_transforms(path)
    refuse_run(path)
    if not path.is_dir():
        raise InputError(
            f"{path} does not exist in {Path.cwd()}; pass the folder of a scene or of photos, "
            "or a video"
        )
    if (read := reader_of(path)) is not None:
        if (path / BLENDER_FILES[0]).exists() and (path / transforms.FILE_NAME).exists():
            log.info(
                f"using {BLENDER_FILES[0]} in {path}; to use {transforms.FILE_NAME} instead, pass "
                "its path"
            )
        return read()
    refuse_unread(path)
    below = [entry for entry in sorted(path.iterdir()) if entry.is_dir() and reader_of(entry)]
    if below:
        raise InputError(f"{path} contains no scene, but its folder {below[0]} does; pass it")
    state = "is empty" if not any(path.iterdir()) else "contains no scene"
    raise InputError(f"{path} {state}: searched for {SOUGHT}. {NEEDS_POSES}")


def reader_of(folder: Path) -> Callable[[], ParsedScene] | None:
    """Return a function that reads the scene in `folder`, or None if the format is unknown."""
    if (folder / BLENDER_FILES[0]).exists():
        return partial(transforms.read_blender, folder)
    if (path := folder / transforms.FILE_NAME).exists():
        return partial(transforms.read_transforms, path)
    if (model := colmap.model_folder(folder)) is not None:
        return partial(colmap.read_colmap, colmap.scene_folder(folder), model)
    if (path := folder / llff.FILE_NAME).exists():
        return partial(llff.read_llff, path)
    if (metadata := record3d.metadata_of(folder)) is not None:
        return partial(record3d.read_record3d, metadata)
    if (keyframes := polycam.keyframes_of(folder)) is not None:
        return partial(polycam.read_polycam, folder, *keyframes)
    if stray_scanner.is_stray_scanner(folder):
        return partial(stray_scanner.read_stray_scanner, folder)
    if tum_rgbd.is_tum_rgbd(folder):
        return partial(tum_rgbd.read_tum_rgbd, folder)
    if (cameras := neus.cameras_of(folder)) is not None:
        return partial(neus.read_neus, cameras)
    if nsvf.is_nsvf(folder):
        return partial(nsvf.read_nsvf, folder)
    if unread_format(folder) is not None:  # Some of these formats have a JSON file with `frames`.
        return None
    if (other := _other_json(folder)) is not None:
        return partial(transforms.read_transforms, other)
    return None


def _other_json(folder: Path) -> Path | None:
    """Return the only JSON file with `frames`, or None."""
    candidates = []
    for path in sorted(folder.glob("*.json")):
        with suppress(InputError):
            if isinstance(read_fields(path).values.get("frames"), list):
                candidates.append(path)
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise InputError(
            f"{folder} has no {transforms.FILE_NAME} and several camera files; pass one of them: "
            f"{names}"
        )
    for path in candidates:
        log.warning(f"no {transforms.FILE_NAME} in {folder}; using {path.name}")
    return candidates[0] if candidates else None
