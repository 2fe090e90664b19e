"""A lock on a folder, against a second process that would write there.

The lock is `flock` on a file in the folder. It ends with the process that holds it, however that
ends. Reading needs no lock.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nerfmac.common.checks import InputError

LOCK = ".lock"
"""Name of the locked file; it holds the name of the process that writes."""

log = logging.getLogger("nerfmac")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Context manager that locks the existing `folder` against other processes that write there.

    Raises `InputError` while another one holds the lock. A file system without locks, or one that
    cannot be written, locks nothing.
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
    import fcntl  # not available on Windows, but nerfmac has exited with a message before

    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:  # writing the first file reports the reason
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 256).decode(errors="replace") or "another process"
            os.close(file)
            raise InputError(
                f"{path.parent} is in use by {holder}; wait until that ends, or stop it, or "
                "choose another folder"
            ) from None
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            reason = path.parent, error.strerror
            log.warning("%s cannot be locked (%s): let one process at a time use it", *reason)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                os.ftruncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
        os.close(file)  # its last holder removed it after it was opened here
