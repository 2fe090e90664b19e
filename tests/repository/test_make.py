"""`make` reports in one line why nerfmac cannot run on a machine, before it installs packages."""

import os
import shutil
import subprocess

import pytest

from tests.conftest import ROOT
from tests.stand_ins import write_programs

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


MAC = {
    "uname": 'case "$1" in -s) echo Darwin;; -m) echo arm64;; esac',
    "sysctl": "echo 0",
    "sw_vers": "echo 15.3",
}


@pytest.mark.parametrize(
    ("programs", "hidden"), [(MAC, True), ({"uname": "echo Linux"}, False)], ids=["mac", "linux"]
)
def test_the_environment_on_a_mac_is_not_hidden(tmp_path, programs, hidden):
    """Python reads no hidden file that points to an editable package, and macOS may hide .venv."""
    venv, log = tmp_path / "venv", tmp_path / "log"
    python = f'echo "python $*" >> {log}'
    programs = programs | {
        "uv": f"""echo "uv $*" >> {log}
if [ "$1" = venv ]; then
  mkdir -p {venv}/bin
  printf '#!/bin/sh\\n%s\\n' '{python}' > {venv}/bin/python
  chmod +x {venv}/bin/python
fi""",
        "chflags": f'echo "chflags $*" >> {log}',
    }
    texts = {name: f"#!/bin/sh\n{line}\n" for name, line in programs.items()}
    folders = [str(write_programs(tmp_path, texts)), os.environ["PATH"]]
    command = ["make", "-C", str(ROOT), "demo", f"VENV={venv}"]
    subprocess.run(command, env={"PATH": os.pathsep.join(folders)}, check=True)
    done = [line.split()[:3] for line in log.read_text().splitlines()]
    shown = [["chflags", "-R", "nohidden"]] if hidden else []
    installed, trained = ["uv", "pip", "install"], ["python", "-m", "nerfmac"]
    assert done == [["uv", "venv", "--quiet"], installed, *shown, trained]
