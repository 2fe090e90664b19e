"""Every CPU kernel compiles with clang and libc++, as on a Mac, and equals its reference.

This proves that the source code of the CPU kernels does not depend on GCC or libstdc++. It does not
prove that the extension compiles on a Mac: the installed MLX is built with libstdc++, so the system
compiler builds the extension here. Apple's version of libc++ and code for ARM are not covered.
"""

import os
import subprocess
import sys

import pytest

from tests.chosen_cases import chosen, function, launches_of_cases, written_functions
from tests.conftest import ROOT
from tests.stand_ins import write_programs

pytest.importorskip("ziglang", reason="needs clang with libc++: pip install ziglang")
pytestmark = pytest.mark.slow

# The system links the kernels, which need only the headers of libc++: linked by `zig c++`, they
# would wait for a minute until it has built the library.
COMPILER = f"""#!/bin/sh
case "$*" in *extension.cpp*) exec c++ "$@";; esac
{sys.executable} -m ziglang c++ -c "$@" || exit
case "$*" in *-shared*) ;; *) exit;; esac
while [ "$1" != -o ]; do shift; done
mv "$2" "$2.o"
cc -shared "$2.o" -o "$2" && rm "$2.o"
"""
IS_LIBCXX = """
#include <cmath>
#ifndef _LIBCPP_VERSION
#error another standard library
#endif
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("libcxx"), {"clang": COMPILER}) / "clang"


def compiled(compiler, path, source):
    path.write_text(source)
    command = [compiler, "-c", path, "-o", path.with_suffix(".o")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_compiler_uses_libcxx_and_rejects_what_a_mac_rejects(compiler, tmp_path):
    done = compiled(compiler, tmp_path / "library.cpp", IS_LIBCXX)
    assert done.returncode == 0, done.stderr
    twice = "#include <cmath>\ninline float abs(float a) { return std::fabs(a); }\n"
    done = compiled(compiler, tmp_path / "twice.cpp", twice)
    assert done.returncode != 0
    assert "abs" in done.stderr


@pytest.mark.daily
def test_every_kernel_equals_its_reference(compiler):
    names, launched = [], set()
    for name in chosen():
        functions = {function(launch) for launch in launches_of_cases()[name]}
        if not functions <= launched:
            names.append(name)
            launched |= functions
    assert launched == written_functions()
    file = "tests/ops/test_kernels.py::test_kernel_equals_its_reference"
    tests = [f"{file}[cpu-{name}]" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "CXX": str(compiler)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(names)} passed" in done.stdout
