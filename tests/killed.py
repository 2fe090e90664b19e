"""What a process that is killed leaves behind."""

import subprocess
import sys
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
