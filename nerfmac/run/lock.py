"""`locked`: keeps two trainings out of one run's folder.

The lock is the system's, on a file in the folder. It ends with the process that holds it, however
that ends. Who only reads the run needs no lock.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nerfmac.common.checks import InputError

NAME = ".lock"
"""The file in a run's folder. It holds the name of the process that trains."""

log = logging.getLogger("nerfmac")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it, no other training can lock the existing `folder`.

    Raises `InputError` while another training holds the lock. A file system without locks, or one
    that cannot be written, locks nothing.
    """
    path = folder / NAME
    file = _lock(path)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # while it is locked: who waits finds it gone
            os.close(file)


def mark(folder: Path) -> tuple[int, int] | None:
    """Inode and time of the checkpoint in `folder`, which each saving changes; None without one."""
    try:
        status = (folder / "checkpoint.safetensors").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _lock(path: Path) -> int | None:
    """The descriptor of the locked file at `path`; None where there are no locks."""
    import fcntl  # here: Windows lacks it, and is refused by a clear message

    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:  # saving the run will say why
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
        if _is_at(path, file):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return file
        os.close(file)  # its last holder removed it after it was opened here


def _is_at(path: Path, file: int) -> bool:
    """Whether the open `file` is the one that `path` names now."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
