"""The folder of a run: facts that are read without loading the run, and a lock on training into it.

The lock is `flock` on a file in the folder. It ends with the process that holds it, however that
ends. Reading a run needs no lock.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.files import read_json
from nerfmac.scenes import holds_scene
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.record import SceneRecord
from nerfmac.scenes.record import is_run as is_run

LOCK = ".lock"
"""Name of the locked file; it holds the name of the process that trains."""

log = logging.getLogger("nerfmac")


def read_record(folder: Path) -> SceneRecord:
    """The record of the scene of the run in `folder`. Raises `InputError` if there is no run."""
    if not is_run(folder) and folder.is_dir() and holds_scene(folder):
        raise InputError(
            f"{folder} is a scene, not a run; `nerfmac train {folder} --out RUN` makes a run of it"
        )
    if not is_run(folder):
        raise InputError(f"{folder} is not a run: it has no config.json")
    path = folder / "scene.json"
    return SceneRecord.from_json(read_json(path), path)


def same_views(one: SceneRecord, other: SceneRecord) -> bool:
    """Whether two scenes have the same training views.

    Path, up direction, placement and options other than masks may differ.
    """

    def views(record: SceneRecord) -> dict[str, Any]:
        options = SceneOptions(masks=record.options.masks)
        alike = replace(record, path=None, up=(0.0, 0.0, 1.0), placement=None)
        return replace(alike, options=options).to_json()

    return views(one) == views(other)


def checkpoint_mark(folder: Path) -> tuple[int, int] | None:
    """Inode and modification time of the checkpoint in `folder`; None without a checkpoint.

    Every save changes it.
    """
    try:
        status = (folder / "checkpoint.safetensors").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Context manager that locks the existing `folder` against other trainings.

    Raises `InputError` while another training holds the lock. A file system without locks, or
    one that cannot be written, locks nothing.
    """
    path = folder / LOCK
    file = _lock(path)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # while locked: a process that waits sees it is gone
            os.close(file)


def _lock(path: Path) -> int | None:
    """The descriptor of the locked file at `path`; None where there are no locks."""
    import fcntl  # not on Windows, which an earlier message refuses

    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:  # saving the run reports the reason
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 256).decode(errors="replace") or "another process"
            os.close(file)
            raise InputError(
                f"{path.parent} is being trained by {holder}; wait until that ends, or stop it, or "
                "name another folder"
            ) from None
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            reason = path.parent, error.strerror
            log.warning("%s cannot be locked (%s): train it by one process at a time", *reason)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                os.ftruncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
        os.close(file)  # its last holder removed it after it was opened here
