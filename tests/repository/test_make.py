"""`make` reports in one line why nerfmac cannot run on a machine, before it installs packages."""

import shutil
import subprocess

import pytest

from tests.conftest import ROOT

TOOLS = ("make", "bash", "sh", "ls", "rm", "touch", "mkdir", "dirname")
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def machine(tmp_path):
    """Run `make demo` where only `TOOLS` and the given programs are, each a line of shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in filter(shutil.which, TOOLS):
        (folder / tool).symlink_to(shutil.which(tool))

    def run(**programs):
        for name, line in programs.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{line}\n")
            path.chmod(0o755)
        command = ["make", "-C", str(ROOT), "demo", f"VENV={tmp_path / 'venv'}"]
        done = subprocess.run(
            command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False
        )
        assert not (tmp_path / "venv").exists()
        return done

    return run


def mac(processor="arm64", *, translated=0, version="15.3"):
    return {
        "uname": f'case "$1" in -s) echo Darwin;; -m) echo {processor};; esac',
        "sysctl": f"echo {translated}",
        "sw_vers": f"echo {version}",
    }


@pytest.mark.parametrize(
    ("programs", "told"),
    [
        (mac("x86_64", translated=1), "Rosetta, as on an Intel Mac. Run: arch -arm64 make"),
        (mac("x86_64"), "needs a Mac with Apple silicon"),
        (mac(version="13.6.1"), "needs macOS 14 or newer, and this is macOS 13.6.1"),
        ({"uname": "echo MINGW64_NT-10.0"}, "macOS and Linux, not on MINGW64_NT"),
    ],
)
def test_a_system_that_mlx_does_not_run_on_is_named(machine, programs, told):
    done = machine(**programs)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2  # the reason, and make's own line


def test_without_a_python_that_fits_the_way_to_one_is_told(machine):
    done = machine(**mac(), python3='[ "$1" = --version ] && echo Python 3.10.4')
    assert done.returncode == 2
    assert "needs Python 3.11 to 3.14 (on a Mac, Apple silicon's)" in done.stderr
    assert "python3 here is: Python 3.10.4" in done.stderr
    assert "brew install uv" in done.stderr
