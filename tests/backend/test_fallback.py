"""If kernels are unavailable, the reference runs instead, with one warning about the reason."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from itertools import dropwhile, islice, takewhile

import mlx.core as mx
import pytest

from nerfmac.backend import backend, fallback, pretended, working_dtype
from nerfmac.backend.sources import operations
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from tests.scene_factory import FLAGS, write_scene

OPERATIONS = list(operations())


def run(*words, cwd=None, **environment):
    """Run this Python with `words` in an environment changed so; return what became of it."""
    command = [sys.executable, *map(str, words)]
    changed = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run(
        command, env=changed, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def warnings(ran):
    return [line for line in ran.stderr.splitlines() if "CPU kernels are not available" in line]


def assert_reference(tmp_path, why, prepared="", **environment):
    """Check that after the lines `prepared`, all operations are references, with one warning."""
    program = f"""
import importlib.metadata, importlib.util
from pathlib import Path
{prepared}
import mlx.core as mx
from nerfmac.backend import choose_device, fallback
from nerfmac.ops.spherical_harmonics import spherical_harmonics
choose_device("cpu")
assert spherical_harmonics(mx.ones((2, 3))).shape == (2, 16)
for operation in {OPERATIONS}:
    print(repr(fallback.why_reference(operation)))
"""
    cache = tmp_path / "cache"
    ran = run("-c", program, cwd=tmp_path, NERFMAC_CACHE=cache, **environment)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == len(OPERATIONS)
    assert all(why in line for line in lines), lines
    assert len(warnings(ran)) == 1
    assert not list(cache.glob("*"))


def test_importing_compiles_launches_and_prints_nothing(tmp_path):
    program = "import nerfmac, mlx.core as mx; assert mx.get_peak_memory() == 0"
    ran = run("-c", program, NERFMAC_CACHE=tmp_path / "cache")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", [{"CXX": "/nonexistent"}, {"PATH": "/nonexistent"}])
def test_without_a_compiler_info_says_so(tmp_path, missing):
    environment = {**missing, "NERFMAC_CACHE": tmp_path / "cache"}
    ran = run("-m", "nerfmac", "info", "--device", "cpu", **environment)
    assert ran.returncode == 0, ran.stderr
    listed = dropwhile(lambda line: line != "operations", ran.stdout.splitlines())
    listed = list(takewhile(lambda line: line.startswith("  "), islice(listed, 1, None)))
    assert sorted(line.split()[0] for line in listed) == OPERATIONS
    assert all("reference (no C++ compiler" in line for line in listed)
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


def test_a_compiler_that_fails_leaves_the_reference(tmp_path):
    path, real = tmp_path / "compiler", shutil.which("c++") or shutil.which("clang++")
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real} "$@"\necho it is broken >&2; exit 1\n'
    )
    path.chmod(0o755)
    why = "failed on nerfmac_cpu_extension"
    assert_reference(tmp_path, why, CXX=path)


STUB = """
from nerfmac.backend import extension
Path("stub.py").write_text({!r})
extension.shared_library = lambda *_: Path("stub.py")
"""
WRONG_TYPE = "def length(array): raise TypeError('length(): incompatible arguments')"
WRONG_LIBRARY = "raise ImportError('undefined symbol: mlx')"
OTHER_VERSION = """
real = importlib.metadata.version
importlib.metadata.version = lambda name: "4.0.0" if name == "nanobind" else real(name)
"""
GONE = """
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "nanobind" else find(name)
"""


@pytest.mark.parametrize(
    ("prepared", "why"),
    [
        (STUB.format(WRONG_TYPE), "fails to load: length(): incompatible"),
        (STUB.format(WRONG_LIBRARY), f"the extension built with mlx {version('mlx')}"),
        (OTHER_VERSION, "support nanobind 4.0.0; "),
        (GONE, "nanobind is installed, but cannot be found"),
    ],
)
def test_an_extension_that_does_not_fit_leaves_the_reference(tmp_path, prepared, why):
    assert_reference(tmp_path, why, prepared)


# --- NVIDIA GPUs that are too old ----------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch):
    """Pretend an NVIDIA GPU of some compute capability."""
    fallback._why_not_this_gpu.cache_clear()

    def make(major, minor):
        found = {"compute_capability_major": major, "compute_capability_minor": minor}
        found |= {"device_name": "NVIDIA Old", "total_memory": 2**34}
        monkeypatch.setattr(mx, "device_info", lambda *_: found)

    with pretended("cuda"):
        yield make
    fallback._why_not_this_gpu.cache_clear()


@pytest.mark.parametrize("capability", [(7, 5), (6, 1)])
def test_a_gpu_too_old_for_the_kernels_runs_the_reference_and_says_so_once(gpu, caplog, capability):
    gpu(*capability)
    why = f"NVIDIA Old has compute capability {capability[0]}.{capability[1]}; the kernels need 8.0"
    assert [fallback.why_reference(each) for each in (None, *OPERATIONS)] == [why] * (
        1 + len(OPERATIONS)
    )
    assert backend() == "reference"
    assert working_dtype() == mx.float32
    assert spherical_harmonics(mx.ones((2, 3))).shape == (2, 16)
    (said,) = caplog.records
    assert said.levelname == "WARNING"
    assert why in said.getMessage()
