"""Readers that convert scene formats to a `ParsedScene`, and detection of the format."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

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
)
from nerfmac.app.scenes.readers.json_frames import FRAME, SPLITS
from nerfmac.app.scenes.readers.pose_files import TO_OPENGL, pose_file
from nerfmac.common import InputError, log, read_fields

PACKED = (".zip", ".tar", ".gz", ".7z")
"""File extensions of archives that must be unpacked first."""
BLENDER_FILES = tuple(transforms.file_name(split) for split in SPLITS)
SOUGHT = (
    f"{transforms.FILE_NAME} (instant-ngp, nerfstudio), {BLENDER_FILES[0]} (Blender), "
    f"sparse/0/cameras.bin or .txt (COLMAP), {llff.FILE_NAME} (LLFF), metadata (Record3D), "
    f"keyframes/cameras (Polycam), {stray_scanner.POSES} (Stray Scanner), "
    f"{nsvf.INTRINSICS} (NSVF) or {neus.FILE_NAMES[0]} (NeuS)"
)
NEEDS_POSES = (
    "Photos or a video do not contain camera poses: estimate them with `nerfmac capture FOLDER` or "
    "`nerfmac capture VIDEO`, which writes a transforms.json"
)

BY_EXTENSION: dict[str, Callable[[Path], ParsedScene]] = {
    ".npy": llff.read_llff,
    ".npz": neus.read_neus,
    record3d.ARCHIVE: record3d.read_record3d_archive,
    ".json": transforms.read_transforms,
}
"""Readers of camera files."""


def _with(*names: str, part: str = "") -> Callable[[Path], Path | None]:
    """Return a function that returns the path `part` in a folder that contains all `names`, and
    otherwise None."""

    def find(folder: Path) -> Path | None:
        return folder / part if all((folder / name).exists() for name in names) else None

    return find


FORMATS: tuple[tuple[Callable[[Path], Any], Callable[..., ParsedScene]], ...] = (
    (_with(BLENDER_FILES[0]), transforms.read_blender),
    (_with(transforms.FILE_NAME, part=transforms.FILE_NAME), transforms.read_transforms),
    (colmap.model_of, colmap.read_colmap),
    (_with(llff.FILE_NAME, part=llff.FILE_NAME), llff.read_llff),
    (record3d.metadata_of, record3d.read_record3d),
    (polycam.keyframes_of, polycam.read_polycam),
    (neus.cameras_of, neus.read_neus),
    (_with(stray_scanner.POSES, stray_scanner.INTRINSICS), stray_scanner.read_stray_scanner),
    (_with(nsvf.INTRINSICS, nsvf.POSES, nsvf.IMAGES), nsvf.read_nsvf),
)
"""Formats of scene folders in order of preference: a function that returns the arguments of the
reader for a folder, or None, and the reader."""


def read_scene(path: Path) -> ParsedScene:
    """Read the scene in a folder or camera file."""
    if path.is_file():
        if path.name in BLENDER_FILES:
            return transforms.read_blender(path.parent)
        if path.suffix.lower() in BY_EXTENSION:
            return BY_EXTENSION[path.suffix.lower()](path)
        if path.suffix.lower() in PACKED:
            raise InputError(f"{path} is an archive; unpack it and pass the resulting folder")
        raise InputError(f"{path} is not a scene: expected a folder or a {SOUGHT}. {NEEDS_POSES}")
    refuse_run(path)
    if not path.is_dir():
        expected = "the folder of a scene or of photos, or a video"
        raise InputError(f"{path} does not exist in {Path.cwd()}; pass {expected}")
    if (read := reader_of(path)) is not None:
        if (path / BLENDER_FILES[0]).exists() and (path / transforms.FILE_NAME).exists():
            used = f"using {BLENDER_FILES[0]} in {path}"
            log.info(f"{used}; to use {transforms.FILE_NAME} instead, pass its path")
        return read()
    refuse_known_poses(path)
    state = "is empty" if not any(path.iterdir()) else "contains no scene"
    raise InputError(f"{path} {state}: searched for {SOUGHT}. {NEEDS_POSES}")


def is_run(folder: Path) -> bool:
    """Return whether a run was saved in `folder`."""
    return (folder / "config.json").is_file()


def refuse_run(path: Path) -> None:
    """Raise `InputError` if `path` is a run folder. Run folders contain no photos."""
    if is_run(path) and (path / "checkpoint.safetensors").is_file():
        raise InputError(
            f"{path} is a run, not a scene; continue its training with `nerfmac train --out {path} "
            f"--resume`, or open it with `nerfmac view {path}`"
        )


def holds_scene(path: Path) -> bool:
    """Return whether `path` is a scene folder or a camera file that `load_scene` can read."""
    if path.is_dir():
        return reader_of(path) is not None
    return path.is_file() and path.suffix.lower() in BY_EXTENSION


def refuse_known_poses(folder: Path, photos: Sequence[Path] = ()) -> None:
    """Raise `InputError` if the camera poses of the images in `folder` are known: in a scene below
    or above, or in a file that nerfmac does not read. `photos` are the images to use, by default
    all; scenes below that do not contain all of them do not matter."""
    command = f"nerfmac capture {quote(str(folder))} --estimate"
    again = f"to estimate the camera poses again, use `{command}`"
    below = [entry for entry in _folders_below(folder) if reader_of(entry)]
    for scene in below:
        if all(photo.is_relative_to(scene) for photo in photos):
            nested = f"{folder} contains no scene, but its folder {scene} does"
            raise InputError(f"{nested}; pass it; {again}")
    found, above = pose_file(folder, below), folder.absolute().parent
    models = colmap.usual_models(above) if found is None else []
    is_shown = any(colmap.shows_images_in(model, folder) for model in models)
    if is_shown or (found and found.path.parent == above and reader_of(above)):
        known = f"the camera poses of the images in {folder} are known in the scene {above}"
        raise InputError(f"{known}; pass {above}; {again}")
    if found is not None:
        raise InputError(
            f"{found.path} contains camera poses in the format {found.format}, which nerfmac does "
            f"not read: {found.advice}, or write a transforms.json ({TO_OPENGL}); {again}"
        )


def _folders_below(folder: Path) -> list[Path]:
    """Return the subfolders on two levels, without hidden folders."""
    paths = [*sorted(folder.glob("*/")), *sorted(folder.glob("*/*/"))]
    return [path for path in paths if "/." not in f"/{path.relative_to(folder).as_posix()}"]


def reader_of(folder: Path) -> Callable[[], ParsedScene] | None:
    """Return a function that reads the scene in `folder`, or None if the format is unknown."""
    for find, read in (*FORMATS, (_other_json, _read_other)):
        if (found := find(folder)) is not None:
            return partial(read, *(found if isinstance(found, tuple) else (found,)))
    return None


def _read_other(path: Path) -> ParsedScene:
    log.warning(f"no {transforms.FILE_NAME} in {path.parent}; using {path.name}")
    return transforms.read_transforms(path)


def _other_json(folder: Path) -> Path | None:
    """Return the only JSON file with `frames`, or None."""
    candidates = []
    for path in sorted(folder.glob("*.json")):
        with suppress(InputError):
            frames = read_fields(path).values.get("frames")
            if isinstance(frames, list) and frames and {*frames[0]} >= FRAME:
                candidates.append(path)
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        found = f"no {transforms.FILE_NAME} and several camera files"
        raise InputError(f"{folder} has {found}; pass one of them: {names}")
    return candidates[0] if candidates else None
