"""NVIDIA's compiler takes every kernel's CUDA text, where nvcc is installed; needs no GPU."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import pytest

from nerfmac.app.measure.selftest import cases
from nerfmac.app.measure.selftest.specializations import build_graphs
from nerfmac.backend import kernel_of, launched_by, pretended, uncompiled
from nerfmac.config.presets import PRESETS
from tests.chosen_cases import written_functions

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
FLAGS = ("-arch=sm_90", "-std=c++17", "--expt-relaxed-constexpr", "-cubin")

pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc, NVIDIA's compiler")


@pytest.fixture(scope="module")
def programs():
    """The programs of two presets, with unique keys, and one of each kernel that they lack."""
    texts, functions = {}, set()

    def note(build, **call):
        program, function = build.library(**call), kernel_of(build).function
        if not in_cases or function not in functions:
            texts[program.name] = program.text.replace("{name}", program.name)
            functions.add(function)
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    with uncompiled(), pretended("cuda"), launched_by(note):
        in_cases = False
        for name in ("tiny", "base"):  # two and four features of a table's row
            build_graphs(PRESETS[name])
        in_cases = True
        for case in cases():
            case.run()
    assert functions == written_functions()
    return texts


def complaints(folder, name, text):
    """Return the error messages of nvcc for a program; empty if it compiles.

    At run time NVRTC compiles the program for the GPU only. nvcc also compiles it for the host, and
    the host headers use attributes called `device`. Therefore no macro has that name here.
    """
    text = text.replace("#define METAL_FUNC __device__ __forceinline__\n#define device\n", "")
    text = re.sub(r"\bdevice\b", "", text.replace("METAL_FUNC", "__device__ __forceinline__"))
    path = folder / f"{name}.cu"
    path.write_text(text)
    command = [NVCC, *FLAGS, path, "-o", path.with_suffix(".cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.daily
def test_every_program_compiles(programs, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda named: complaints(tmp_path, *named), programs.items())
        refused = {name: errors for name, errors in zip(programs, said, strict=True) if errors}
    assert refused == {}
