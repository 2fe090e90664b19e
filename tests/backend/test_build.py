"""What the compiler makes is cached by all that can change it, whole, and safe to race for."""

import ctypes
import subprocess
import sys

import pytest

from nerfmac.backend import build, cpu_kernel

SOURCE = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("NERFMAC_CACHE", str(folder))
    return folder


def answer(path):
    return ctypes.CDLL(str(path)).answer()


def test_a_library_is_built_once_and_nothing_is_left_beside_it(cache):
    path = build.shared_library("toy", {"toy.cpp": SOURCE})
    assert answer(path) == 42
    assert list(cache.iterdir()) == [path]
    built = path.stat().st_mtime_ns
    spent = build.build_seconds
    assert build.shared_library("toy", {"toy.cpp": SOURCE}) == path
    assert path.stat().st_mtime_ns == built
    assert build.build_seconds == spent > 0


def test_whatever_changes_a_library_changes_its_name(cache, monkeypatch):
    def name(**changes):
        arguments = {"stem": "toy", "sources": {"toy.cpp": SOURCE}, "flags": ()} | changes
        return build.shared_library(**arguments).name

    with monkeypatch.context() as patched:
        # Names alone are looked at, so nothing needs to be compiled.
        patched.setattr(build, "_compile", lambda library, sources, flags: None)
        names = [name(), name(stem="other"), name(sources={"toy.cpp": SOURCE + " "})]
        names += [name(flags=("-O2",)), name(flags=("-O", "2")), name(flags=("-O1",))]
        patched.setattr(build, "compiler_version", lambda: "another compiler; this processor")
        names.append(name())
        patched.setattr(build.platform, "platform", lambda: "another system")
        names.append(name())
        patched.setattr(build.sys, "version", "another Python")
        names.append(name())
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("package", ["mlx", "nanobind"])
def test_another_version_of_what_it_is_built_against_is_another_extension(monkeypatch, package):
    seen = []

    def remember(stem, sources, flags):
        seen.append((stem, tuple(sources.items()), flags))
        raise build.BuildError("not built")

    monkeypatch.setattr(cpu_kernel, "shared_library", remember)
    versions = cpu_kernel.version
    for other in (versions, lambda name: "99" if name == package else versions(name)):
        monkeypatch.setattr(cpu_kernel, "version", other)
        with pytest.raises(build.BuildError):
            cpu_kernel.extension.__wrapped__()
    assert seen[0] != seen[1]
    assert f"{package} 99" in str(seen[1])


def test_a_failed_build_says_what_the_compiler_said_and_leaves_nothing(cache):
    with pytest.raises(build.BuildError, match=r"failed on toy-\w+:\n(.*\n)*.*answered"):
        build.shared_library("toy", {"toy.cpp": 'extern "C" int answer() { return answered; }'})
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_failed_build(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "file"))
    with pytest.raises(build.BuildError, match=f"cannot write {tmp_path}/file/toy-"):
        build.shared_library("toy", {"toy.cpp": SOURCE})


def test_several_processes_may_build_the_same_library_at_once(cache):
    program = f"""
import ctypes, sys
from nerfmac.backend.build import shared_library
sys.stdin.read(1)
print(ctypes.CDLL(str(shared_library("toy", {{"toy.cpp": {SOURCE!r}}}))).answer())
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", program]
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for process in processes:  # let go together, once each has had time to import
        process.stdin.write("x")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0] for process in processes]
    assert answers == ["42\n"] * 4
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("exit 0", "does not tell its version"), ("echo broken; exit 1", "does not tell its version")],
)
def test_what_is_no_compiler_is_said_to_be_none(tmp_path, monkeypatch, text, complaint):
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n{text}\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: str(compiler))
    with pytest.raises(build.BuildError, match=complaint):
        build.compiler_version.__wrapped__()


def test_a_compiler_that_does_not_run_is_said_so(tmp_path, monkeypatch):
    compiler = tmp_path / "c++"
    compiler.write_text("not a program")
    compiler.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: str(compiler))
    with pytest.raises(build.BuildError, match="does not run"):
        build.compiler_version.__wrapped__()


def test_the_compiler_named_by_the_environment_is_the_only_one_tried(monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent")
    with pytest.raises(build.BuildError, match="looked for CXX=/nonexistent"):
        build.compiler.__wrapped__()
