"""Information about run folders that is available without loading the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nerfmac.app.scenes import Scene, holds_scene, is_run as is_run
from nerfmac.common import LOCK, InputError, check_free, visible_names, write_json
from nerfmac.common.json_reader import Fields, as_json, read_as, read_fields

SCHEMA = 2  # Version of the contents of scene.json.
BEGINNING = {"scene.json", "config.json"}  # Written before the first checkpoint of a run.


def write_scene(folder: Path, scene: Scene) -> None:
    """Save the scene of a run without its images."""
    write_json(folder / "scene.json", {"schema": SCHEMA, **as_json(scene)})


def read_scene(folder: Path) -> Scene:
    """Read the scene of a run without its images."""
    if not is_run(folder) and folder.is_dir() and holds_scene(folder):
        raise InputError(
            f"{folder} is a scene, not a run; train a run with `nerfmac train {folder} --out RUN`"
        )
    if not is_run(folder):
        raise InputError(
            f"{folder} is not a run: it has no config.json; pass a folder that `nerfmac train` "
            "has written, such as runs/NAME"
        )
    fields = read_fields(folder / "scene.json")
    values = dict(fields.values)
    if (schema := values.pop("schema", 1)) != SCHEMA:
        raise InputError(
            f"{folder} was written by another version of nerfmac: the schema of its scene.json is "
            f"{schema}, and this version reads {SCHEMA}; train a new run"
        )
    return read_as(Scene, Fields(values, fields.where))


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


@contextmanager
def first_save(folder: Path) -> Iterator[None]:
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
