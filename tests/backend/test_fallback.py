"""Where kernels cannot be had the reference runs, says why, once, and the job is done."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from nerfmac.backend.build import cache_folder
from nerfmac.backend.cpu_kernel import extension
from nerfmac.backend.sources import kernels_folder
from tests.scene_factory import FLAGS, write_scene

OPERATIONS = sorted(path.stem for path in kernels_folder().glob("*.metal"))


def run(*words, **environment):
    """Run this Python with `words` in an environment changed so; return what became of it."""
    command = [sys.executable, *map(str, words)]
    changed = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run(command, env=changed, capture_output=True, text=True, timeout=120)


def warnings(ran):
    return [line for line in ran.stderr.splitlines() if "CPU kernels are off" in line]


def assert_all_reference(ran, why):
    """Fail unless `nerfmac info` names the reference and `why` for every operation."""
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    shown = {line.split()[0]: line for line in lines[lines.index("operations") + 1 :]}
    assert sorted(shown) == OPERATIONS
    for line in shown.values():
        assert "reference (" in line
        assert why in line


@pytest.fixture
def compiler(tmp_path):
    """Make a script that says it is the compiler and then does as it is told."""

    def make(text):
        path = tmp_path / "compiler"
        real = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} "$@"\n{text}\n')
        path.chmod(0o755)
        return path, real

    return make


def test_importing_compiles_launches_and_prints_nothing(tmp_path):
    program = "import nerfmac, mlx.core as mx; assert mx.get_peak_memory() == 0"
    ran = run("-c", program, NERFMAC_CACHE=tmp_path / "cache")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", [{"CXX": "/nonexistent"}, {"PATH": "/nonexistent"}])
def test_without_a_compiler_info_says_so_with_one_warning(tmp_path, missing):
    environment = {**missing, "NERFMAC_CACHE": tmp_path / "cache"}
    ran = run("-m", "nerfmac", "info", "--device", "cpu", **environment)
    assert_all_reference(ran, "no C++ compiler")
    assert len(warnings(ran)) == 1
    assert "none (no C++ compiler" in ran.stdout


def test_without_a_compiler_a_run_is_trained_all_the_same(tmp_path):
    scene, out = write_scene(tmp_path / "balls"), tmp_path / "run"
    environment = {"PATH": "/nonexistent", "NERFMAC_CACHE": tmp_path / "cache", "CXX": ""}
    words = ("train", scene, *FLAGS, "--steps", 3, "--out", out, "--no-video")
    ran = run("-m", "nerfmac", *words, TMPDIR=tmp_path, **environment)
    assert ran.returncode == 0, ran.stderr
    assert len(warnings(ran)) == 1
    told = json.loads((out / "metrics.json").read_text())
    assert (told["device"], told["backend"], told["steps"]) == ("cpu", "reference", 3)
    assert not (tmp_path / "cache").exists()


def test_a_compiler_that_fails_leaves_the_reference(tmp_path, compiler):
    path, _ = compiler("echo it is broken >&2; exit 1")
    ran = run("-m", "nerfmac", "info", "--device", "cpu", CXX=path, NERFMAC_CACHE=tmp_path)
    assert_all_reference(ran, "failed on nerfmac_cpu_extension")
    assert len(warnings(ran)) == 1
    assert "it is broken" in ran.stderr


def test_a_compiler_that_refuses_the_flags_of_kernels_leaves_the_reference(tmp_path, compiler):
    # The extension is there; the first kernel shows that there will be no other.
    extension()
    cache = tmp_path / "cache"
    cache.mkdir()
    for library in cache_folder().glob("nerfmac_cpu_extension-*"):
        shutil.copy(library, cache)
    real = compiler("")[1]
    path, _ = compiler(f'case "$*" in *march=native*) exit 1;; esac\nexec {real} "$@"')
    ran = run("-m", "nerfmac", "info", "--device", "cpu", CXX=path, NERFMAC_CACHE=cache)
    assert_all_reference(ran, "failed on nerfmac_probe")
    assert len(warnings(ran)) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def length(array): raise TypeError('length(): incompatible arguments')", "incompatible"),
        ("raise ImportError('undefined symbol: mlx')", "undefined symbol"),
    ],
)
def test_an_extension_that_does_not_fit_mlx_leaves_the_reference(tmp_path, text, why):
    stub = tmp_path / "stub.py"
    stub.write_text(text)
    program = f"""
from pathlib import Path
from nerfmac.backend import choose_device, cpu_kernel, kernel
cpu_kernel.shared_library = lambda *_: Path({str(stub)!r})
choose_device("cpu")
for operation in ("march", "networks"):
    print(kernel.why_reference(operation))
"""
    ran = run("-c", program, NERFMAC_CACHE=tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert first == second
    assert "does not load" in first
    assert why in first
    assert len(warnings(ran)) == 1
