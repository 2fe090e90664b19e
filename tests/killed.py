"""Effects of other processes on a folder: one is killed during its work, one uses the folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WRITE = """import sys
from pathlib import Path
from nerfmac.common.files import appearing
with appearing(Path(sys.argv[1])) as partial:
    print(partial, flush=True)
    sys.stdin.read()
"""


def half_written(path: Path) -> Path:
    """Return the file that a process which was killed while it wrote `path` has left."""
    command = [sys.executable, "-c", WRITE, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        partial = Path(process.stdout.readline().decode().strip())
        process.kill()
    assert partial.exists()
    return partial


_HOLD = """import sys
from pathlib import Path
from nerfmac.common.lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Return a context manager that yields another process, while that uses the `folder`."""
    command = [sys.executable, "-c", _HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield process
        process.kill()
