"""Run the tests that write files in a folder that compares file names as APFS does.

Use `python -m tests.apfs`, followed by options of pytest. Without paths, the tests of the packages
that read and write files are run, except slow tests and tests that need a browser.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.apfs.shim import MISSING, build, environment, is_available

PATHS = ["tests/common", "tests/app", "--ignore=tests/app/viewer", "--ignore=tests/app/measure"]
"""The tests of the packages that read and write files."""


def main(options: list[str]) -> int:
    if not is_available():
        print(f"tests.apfs: {MISSING}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        variables = environment(build(folder), folder)
        paths = [] if any(Path(option).exists() for option in options) else PATHS
        command = [sys.executable, "-m", "pytest", "-m", "not slow and not browser"]
        command += ["--basetemp", str(folder / "tests"), *options, *paths]
        return subprocess.run(command, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
