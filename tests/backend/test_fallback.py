"""If kernels are unavailable, the reference runs instead, with one warning about the reason."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from itertools import dropwhile, islice, takewhile
from pathlib import Path

import mlx.core as mx
import pytest

from nerfmac.backend import backend, choose_device, fallback, working_dtype
from nerfmac.backend import extension as building
from nerfmac.backend.build import BuildError
from nerfmac.backend.device import compute_capability, pretended
from nerfmac.backend.extension import VERSIONS
from nerfmac.backend.sources import operations
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from tests.scene_factory import FLAGS, write_scene

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = list(operations())


def run(*words, **environment):
    """Run this Python with `words` in an environment changed so; return what became of it."""
    command = [sys.executable, *map(str, words)]
    changed = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run(command, env=changed, capture_output=True, text=True, timeout=120)


def warnings(ran):
    return [line for line in ran.stderr.splitlines() if "CPU kernels are not available" in line]


IN_USE = f"""
from nerfmac.backend import choose_device
from nerfmac.backend.fallback import why_reference
choose_device("cpu")
for operation in {OPERATIONS}:
    print(repr(why_reference(operation)))
"""


def assert_all_reference_in_use(ran, why):
    """Fail unless the program `IN_USE` had `why` for every operation, and one warning."""
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == len(OPERATIONS)
    assert all(why in line for line in lines), lines
    assert len(warnings(ran)) == 1


def assert_all_reference(ran, why):
    """Fail unless `nerfmac info` names the reference and `why` for every operation."""
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    listed = dropwhile(lambda line: line != "operations", lines)
    listed = takewhile(lambda line: line.startswith("  "), islice(listed, 1, None))
    shown = {line.split()[0]: line for line in listed}
    assert sorted(shown) == OPERATIONS
    for line in shown.values():
        assert "reference (" in line
        assert why in line


@pytest.fixture
def compiler(tmp_path):
    """Create a script that prints a compiler version and then runs the given commands."""

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
def test_without_a_compiler_info_says_so(tmp_path, missing):
    environment = {**missing, "NERFMAC_CACHE": tmp_path / "cache"}
    ran = run("-m", "nerfmac", "info", "--device", "cpu", **environment)
    assert_all_reference(ran, "no C++ compiler")
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
    ran = run("-c", IN_USE, CXX=path, NERFMAC_CACHE=tmp_path)
    assert_all_reference_in_use(ran, "failed on nerfmac_cpu_extension")
    assert "it is broken" in ran.stderr


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
from nerfmac.backend import choose_device, extension, fallback
extension.shared_library = lambda *_: Path({str(stub)!r})
choose_device("cpu")
for operation in ("march", "networks"):
    print(fallback.why_reference(operation))
"""
    ran = run("-c", program, NERFMAC_CACHE=tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert first == second
    assert f"mlx {version('mlx')}" in first
    assert why in first
    assert len(warnings(ran)) == 1


@pytest.mark.parametrize(
    ("package", "version"),
    [
        *(("mlx", version) for version in ("0.34.0", "0.33.0.dev3", "0.33", "1.0", "0.32.2")),
        *(("nanobind", version) for version in ("2.15.0", "4.0.0")),
    ],
)
def test_versions_that_the_extension_is_not_known_to_fit_are_refused(monkeypatch, package, version):
    first, end = VERSIONS[package]
    monkeypatch.setattr(building, "version", lambda _: version)
    wanted = rf"{package} {re.escape(version)};.*{package}>={first},<{end}"
    with pytest.raises(BuildError, match=wanted):
        building._fitting_version(package)


@pytest.mark.parametrize(
    ("prepared", "why"),
    [
        (
            "real = importlib.metadata.version\n"
            "importlib.metadata.version = lambda n: '4.0.0' if n == 'nanobind' else real(n)",
            "support nanobind 4.0.0; ",
        ),
        (
            "find = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda n: None if n == 'nanobind' else find(n)",
            "nanobind is installed, but cannot be found",
        ),
    ],
)
def test_without_a_fitting_nanobind_the_reference_runs_and_no_compiler(tmp_path, prepared, why):
    program = f"""
import importlib.metadata, importlib.util
{prepared}
import mlx.core as mx
from nerfmac.backend import choose_device, fallback
from nerfmac.ops.spherical_harmonics import spherical_harmonics
choose_device("cpu")
print(fallback.why_reference("march"))
print(spherical_harmonics(mx.ones((2, 3))).shape)
"""
    ran = run("-c", program, NERFMAC_CACHE=tmp_path / "cache")
    assert ran.returncode == 0, ran.stderr
    reason, shape = ran.stdout.splitlines()
    assert shape == "(2, 16)"
    assert why in reason
    assert len(warnings(ran)) == 1
    assert not (tmp_path / "cache").exists()


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


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 1)])
def test_a_gpu_that_is_new_enough_runs_kernels(gpu, caplog, capability):
    gpu(*capability)
    assert backend() == "cuda"
    assert not caplog.records


@pytest.mark.cuda
def test_mlx_tells_the_compute_capability_of_this_gpu():
    choose_device("cuda")
    assert compute_capability() >= (5, 0)
