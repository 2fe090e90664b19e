"""`scripts/first_mac.sh` tries everything, keeps what failed, and leaves one file without names."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.stand_ins import NERFMAC, PYTHON, XCRUN, write_programs

NEEDED = ("bash", "perl", "tar", "hostname")
pytestmark = [
    pytest.mark.slow,  # each step is a process that imports MLX
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}"),
]
MAC = {
    "uname": '#!/bin/sh\n[ "$1" = -s ] && echo Darwin || echo Darwin 24.5.0 arm64\n',
    "sw_vers": "#!/bin/sh\necho ProductVersion: 15.5\n",
    "sysctl": "#!/bin/sh\necho Apple M1\n",
    "xcode-select": "#!/bin/sh\necho /Applications/Xcode.app/Contents/Developer\n",
    "xcrun": XCRUN,
    "chflags": '#!/bin/sh\necho chflags "$@"\n',
}
# A run prints the path of its folder, and the file must not contain it; one source is compiled.
HELPERS = """
import platform
from pathlib import Path

def dump_or_info(command, words):
    if "--dump-metal" in words:
        folder = Path(words[words.index("--dump-metal") + 1])
        folder.mkdir()
        (folder / "one.metal").write_text("[[kernel]] void one() {}")

def write_run(words):
    out = Path(words[words.index("--out") + 1])
    out.mkdir(parents=True)
    (out / "metrics.json").write_text('{"psnr_test": 30.0}')
    print("in", Path.home(), "on", platform.node())

"""


@pytest.fixture
def tried(tmp_path):
    """Run the script on a simulated Mac, where the command `broken` fails."""

    def run(broken):
        for name in ("nerfmac", "kernels", "data", "pyproject.toml"):
            (tmp_path / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
        text = NERFMAC.replace(
            "nerfmac.app.cli.main([command, *words])", "dump_or_info(command, words)"
        )
        text = text.replace("command, *words = ", f"{HELPERS}command, *words = ")
        text += f"if command == {broken!r}: raise SystemExit('nerfmac: no such thing')\n"
        text += "if command == 'train': write_run(words)\n"
        write_programs(tmp_path, MAC)
        (tmp_path / "venv").mkdir()
        write_programs(tmp_path / "venv", {"python": PYTHON, "nerfmac": text})
        folders = os.environ["PATH"].split(":")
        without_uv = [folder for folder in folders if not Path(folder, "uv").exists()]
        environment = {
            **os.environ,
            "PATH": ":".join([str(tmp_path / "bin"), *without_uv]),
            "VENV": str(tmp_path / "venv"),
            "PYTHONPATH": str(ROOT),
        }
        command = ["bash", str(tmp_path / "scripts" / "first_mac.sh"), "7"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        (archive,) = tmp_path.glob("first-mac-*.tar.gz")
        with tarfile.open(archive) as packed:
            files = {
                member.name.partition("/")[2]: packed.extractfile(member).read().decode()
                for member in packed.getmembers()
                if member.isfile()
            }
        return done, archive, files

    return run


def test_every_step_is_tried_one_that_fails_is_told_and_nobody_is_named(
    tried, monkeypatch, tmp_path
):
    monkeypatch.setenv("HOME", str(tmp_path / "a name"))
    done, archive, files = tried("selftest")
    assert done.returncode == 1
    assert f"please attach {archive}" in done.stdout
    assert "steps that failed: selftest" in done.stdout
    assert "nerfmac: no such thing" in done.stdout
    names = "system install info probe train base selftest profile compile"
    codes = {name: f"exit code {int(name == 'selftest')}" for name in names.split()}
    steps = [line.partition(": ") for line in files["steps.txt"].splitlines()]
    assert [name for name, *_ in steps] == names.split()
    assert all(codes[name] in said for name, _, said in steps)
    assert "Apple M1" in files["system.txt"]
    assert files["install.txt"] == f"chflags -R nohidden {tmp_path / 'venv'}\n"
    assert "known: train --seconds 7" in files["train.txt"]
    assert files["run-metrics.json"] == files["base-metrics.json"] == '{"psnr_test": 30.0}'
    assert all(f"metal{version}" in files["compile.txt"] for version in ("3.1", "3.2", "4.1"))
    assert "in ~ on" in files["train.txt"]
    for name, text in files.items():
        assert "a name" not in text, name
