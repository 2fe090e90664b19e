"""A lock that prevents two processes from writing to the same folder: an `flock` on a file, which
the operating system releases when the process ends, even after a crash. Reading requires no
lock."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nerfmac.common.checks import InputError, log

LOCK = ".lock"  # Name of the lock file. It contains the name of the locking process.


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Return a context manager that locks an existing `folder` against writes by other processes,
    if the file system supports locks and is writable."""
    path = folder / LOCK
    file = _lock(path)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # while locked, so that a waiting process notices
            os.close(file)


def _lock(path: Path) -> int | None:
    """Lock the file at `path` and return its descriptor, or None if locks are not supported."""
    import fcntl  # not available on Windows, where nerfmac exits with a message before this line

    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:  # the reason is reported later, when the first file is written
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 256).decode(errors="replace") or "another process"
            os.close(file)
            raise InputError(
                f"{path.parent} is in use by {holder}; wait until it ends, stop it, or "
                "choose another folder"
            ) from None
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            reason = path.parent, error.strerror
            log.warning("%s cannot be locked (%s); do not use it in several processes", *reason)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                os.ftruncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
        os.close(file)  # the process that held the lock has removed the file
