"""`awake`, which prevents a Mac from sleeping during long computations."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def awake() -> Iterator[None]:
    """Context manager and decorator that prevents macOS from sleeping while no one uses the Mac.

    The display may turn off. If this process is killed, the power assertion of `caffeinate` also
    ends. On other systems, and if `caffeinate` is missing, the context manager has no effect.

    Yields:
        None.
    """
    process = None
    if platform.system() == "Darwin":
        with suppress(OSError):
            # In a session of its own, Ctrl-C in the terminal does not end it early.
            process = subprocess.Popen(
                ["caffeinate", "-i", "-w", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    try:
        yield
    finally:
        if process is not None:
            process.terminate()
            process.wait()
