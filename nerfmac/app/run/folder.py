"""Information about run folders that is available without loading the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nerfmac.app.scenes import Scene, holds_scene
from nerfmac.app.scenes.record import SceneRecord, is_run as is_run
from nerfmac.common import LOCK, InputError, check_free, read_as, read_fields, visible_names

BEGINNING = {"scene.json", "config.json"}  # Written before the first checkpoint of a run.


def read_record(folder: Path) -> SceneRecord:
    """Read the scene record of a run."""
    if not is_run(folder) and folder.is_dir() and holds_scene(folder):
        raise InputError(
            f"{folder} is a scene, not a run; train a run with `nerfmac train {folder} --out RUN`"
        )
    if not is_run(folder):
        raise InputError(
            f"{folder} is not a run: it has no config.json; pass a folder that `nerfmac train` "
            "has written, such as runs/NAME"
        )
    path = folder / "scene.json"
    return read_as(SceneRecord, read_fields(path))


def check_unused(folder: Path) -> None:
    """Raise `InputError` unless `folder` is absent or empty. It may contain a lock file and the
    `BEGINNING` files of a run that was killed before its first checkpoint."""
    if (folder / LOCK).exists() and visible_names(folder) <= BEGINNING:
        return
    if is_run(folder):
        raise InputError(
            f"the run {folder} exists already; continue its training with --resume "
            "(nerfmac.resume), or choose another folder"
        )
    check_free(folder)


def check_saved(folder: Path) -> None:
    """Raise `InputError` unless `folder` contains a run with a checkpoint."""
    read_record(folder)
    if not checkpoint_mark(folder):
        raise InputError(
            f"{folder} has no checkpoint, because its training stopped before the first one; "
            "train again without --resume"
        )


@contextmanager
def beginning(folder: Path) -> Iterator[None]:
    """Context manager for the first save of a run. If saving fails, the files in `BEGINNING` are
    removed. If the folder already contains the checkpoint of another run, `InputError` is raised.
    """
    if checkpoint_mark(folder):
        raise InputError(f"another run has been saved to {folder}; choose another folder")
    try:
        yield
    except BaseException:
        for name in BEGINNING:
            (folder / name).unlink(missing_ok=True)
        raise


def moved_record(folder: Path, scene: SceneRecord, source: Scene) -> SceneRecord:
    """Return a scene record with the path of `source`, the same scene at another path. The training
    views, the extent, and the options `masks` and `depth` must be the same as in the record. Other
    options may differ."""
    scene.check_views(source, str(folder))
    ours, theirs = ((x.extent, x.options.masks, x.options.depth) for x in (scene, source))
    if ours != theirs:
        raise InputError(
            f"{folder} was trained with extent {ours[0]:g}, masks {ours[1]}, and depth {ours[2]}, "
            f"but the scene {source.name!r} was loaded with extent {theirs[0]:g}, masks "
            f"{theirs[1]}, and depth {theirs[2]}; load it with the options of the run"
        )
    return replace(scene, path=str(source.path.resolve()) if source.path else None)


def checkpoint_mark(folder: Path) -> tuple[int, int] | None:
    """Return the inode and the modification time of the checkpoint in `folder`, or None. Saving a
    checkpoint always changes this pair."""
    try:
        status = (folder / "checkpoint.safetensors").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def check_unchanged(folder: Path, mark: tuple[int, int] | None) -> None:
    """Raise `InputError` if another process has replaced the checkpoint in a run folder since
    `mark`, an earlier `checkpoint_mark`. A checkpoint that no longer exists is accepted."""
    if mark and checkpoint_mark(folder) not in (None, mark):
        raise InputError(
            f"{folder} has been trained by another process; load the run again to continue "
            "training from there"
        )
