"""The folder of a run: facts that are read without loading the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nerfmac.app.scenes import Scene, holds_scene
from nerfmac.app.scenes.options import SceneOptions
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.app.scenes.record import is_run as is_run
from nerfmac.common.checks import InputError
from nerfmac.common.files import check_free, read_json, visible_names
from nerfmac.common.lock import LOCK

BEGINNING = {"scene.json", "config.json"}
"""Names of the files that a run writes before its first checkpoint."""


def read_record(folder: Path) -> SceneRecord:
    """The record of the scene of the run in `folder`. Raises `InputError` if there is no run."""
    if not is_run(folder) and folder.is_dir() and holds_scene(folder):
        raise InputError(
            f"{folder} is a scene, not a run; `nerfmac train {folder} --out RUN` makes a run of it"
        )
    if not is_run(folder):
        raise InputError(
            f"{folder} is not a run: it has no config.json; name the folder that `nerfmac train` "
            "wrote, such as runs/NAME"
        )
    path = folder / "scene.json"
    return SceneRecord.from_json(read_json(path), path)


def check_unused(folder: Path) -> None:
    """Raise `InputError` unless a run can begin in `folder`: it is absent or empty.

    A training that was killed before its first checkpoint has left its lock and no more than
    `BEGINNING`; there too a run can begin.
    """
    if not ((folder / LOCK).exists() and visible_names(folder) <= BEGINNING):
        check_free(folder)


def check_saved(folder: Path) -> None:
    """Raise `InputError` unless `folder` holds a run with a checkpoint."""
    read_record(folder)
    if not checkpoint_mark(folder):
        raise InputError(
            f"{folder} has no checkpoint: its training ended before the first; begin it again, "
            "without resuming"
        )


@contextmanager
def beginning(folder: Path) -> Iterator[None]:
    """Context manager in which a run is first saved to `folder`; if that fails, nothing stays.

    Raises `InputError` if another run has been saved there since `check_unused`.
    """
    if checkpoint_mark(folder):
        raise InputError(f"{folder} holds another run since; name another folder")
    try:
        yield
    except BaseException:
        for name in BEGINNING:
            (folder / name).unlink(missing_ok=True)
        raise


def moved_record(folder: Path, scene: SceneRecord, source: Scene) -> SceneRecord:
    """The record `scene` of the run in `folder` with the path of `source`, the scene as it is now.

    Raises `InputError` unless both have the same training views. Path, up direction, placement,
    mean color, subject, and options other than masks may differ.
    """

    def views(record: SceneRecord) -> dict[str, Any]:
        options = SceneOptions(masks=record.options.masks)
        alike = replace(record, path=None, up=(0.0, 0.0, 1.0), placement=None)
        return replace(alike, options=options, mean_color=None, subject=None).to_json()

    record = SceneRecord.of(source)
    if views(scene) != views(record):
        raise InputError(
            f"{folder} was trained on {scene.path}, from other views than those of the scene "
            f"{source.name!r}; resume it with its own scene and options"
        )
    return replace(scene, path=record.path)


def checkpoint_mark(folder: Path) -> tuple[int, int] | None:
    """Inode and modification time of the checkpoint in `folder`; None without a checkpoint.

    Every save changes it.
    """
    try:
        status = (folder / "checkpoint.safetensors").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def check_unchanged(folder: Path, mark: tuple[int, int] | None) -> None:
    """Raise `InputError` if the checkpoint in `folder` has another `checkpoint_mark` than `mark`.

    None, and a checkpoint that is gone, are not compared.
    """
    if mark and checkpoint_mark(folder) not in (None, mark):
        raise InputError(
            f"{folder} has been trained by another process since; load it again to go on from there"
        )
