"""Cached files of the compiler: complete keys, atomic writes, and concurrent processes."""

import ctypes
import logging
import subprocess
import threading
from pathlib import Path

import pytest

from nerfmac.backend import build, host, kernel
from nerfmac.backend.build import BuildError, Library
from nerfmac.backend.host import cache_folder
from nerfmac.common.checks import InputError

ANNOUNCED = "compiling kernels, once for this machine; this takes about 20 s ..."
SOURCE = 'extern "C" int answer() { return 42; }\n'
TOY = Library("toy", {"toy.cpp": SOURCE})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("NERFMAC_CACHE", str(folder))
    return folder


def answer(path):
    return ctypes.CDLL(str(path)).answer()


def test_a_library_is_built_once_and_nothing_is_left_beside_it(cache):
    path = build.shared_library(TOY)
    assert answer(path) == 42
    assert list(cache.iterdir()) == [path]
    built = path.stat().st_mtime_ns
    assert build.shared_library(TOY) == path
    assert path.stat().st_mtime_ns == built


def test_whatever_changes_a_library_changes_its_name(cache, monkeypatch):
    changes = [
        {},
        {"stem": "other"},
        {"sources": {"toy.cpp": SOURCE + " "}},
        {"flags": ("-O2",)},
        {"flags": ("-O", "2")},
        {"flags": ("-O1",)},
    ]
    names = [TOY._replace(**change).path().name for change in changes]
    for module, name, value in (
        (build, "compiler_version", lambda: "another compiler; this processor"),
        (build, "processor_features", lambda: "fewer"),
        (build.platform, "platform", lambda: "another system"),
        (build.sys, "version", "another Python"),
    ):
        monkeypatch.setattr(module, name, value)
        names.append(TOY.path().name)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("key", ["flags\t\t", "Features\t"])
def test_processors_of_one_name_and_other_features_have_other_libraries(
    cache, monkeypatch, tmp_path, key
):
    monkeypatch.setattr(host, "_CPUINFO", tmp_path / "cpuinfo")
    names = []
    for features in ("fpu sse2 avx2", "fpu sse2 avx2 avx512f"):
        each = f"processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n{key}: {features}\n\n"
        (tmp_path / "cpuinfo").write_text(2 * each)
        names.append(TOY.path().name)
        assert host.processor_name() == "Intel(R) Xeon(R) Processor"
        assert host.processor_features() == features
    assert names[0] != names[1]


def test_libraries_are_compiled_at_the_same_time_each_once(cache, monkeypatch):
    monkeypatch.setattr(build, "processors", lambda: 3)
    together, real = threading.Barrier(3), Library.compile

    def compile_together(library, path):
        together.wait(60)
        real(library, path)

    monkeypatch.setattr(Library, "compile", compile_together)
    libraries = [Library(f"toy{i}", {"toy.cpp": SOURCE}) for i in range(3)]
    build.compile_together([*libraries, *libraries])
    assert sorted(cache.iterdir()) == sorted(each.path() for each in libraries)
    assert [answer(each.path()) for each in libraries] == [42] * 3


def test_of_libraries_compiled_together_one_that_fails_spoils_no_other(cache):
    bad = Library("bad", {"bad.cpp": "no program"})
    with pytest.raises(build.BuildError, match="bad-"):
        build.compile_together([bad, TOY])
    assert list(cache.iterdir()) == [TOY.path()]


def test_one_line_says_that_kernels_are_compiled_however_many_batches_there_are(cache, caplog):
    build.announce_compiling.cache_clear()
    caplog.set_level(logging.INFO, "nerfmac")
    for name in ("one", "two"):
        build.compile_together([Library(name, {"toy.cpp": SOURCE})])
    assert caplog.messages == [ANNOUNCED]


def test_on_metal_the_line_is_said_once_for_each_version(cache, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "nerfmac")
    monkeypatch.setattr(kernel, "backend", lambda: "metal")

    def start():
        caplog.clear()
        build.announce_metal.cache_clear()
        for _ in range(2):
            with kernel.compiled_ahead():
                pass
        return caplog.messages

    build.shared_library(TOY)  # For example, of a self-test on the CPU.
    assert start() == ["compiling kernels, once for this machine ..."]
    assert start() == []
    monkeypatch.setattr("nerfmac.version.version", lambda: "9.9")
    assert len(start()) == 1
    monkeypatch.setattr(build.metadata, "version", lambda _: "9.9")
    assert len(start()) == 1
    assert start() == []


def test_a_failed_build_says_what_the_compiler_said_and_leaves_nothing(cache):
    with pytest.raises(build.BuildError, match=r"toy-\w+:\n(.*\n)*.*answered"):
        build.shared_library(Library("toy", {"toy.cpp": SOURCE.replace("42", "answered")}))
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_failed_build(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "file"))
    with pytest.raises(build.BuildError, match=f"{tmp_path}/file/toy-.*NERFMAC_CACHE"):
        build.shared_library(TOY)


def test_a_user_without_a_home_folder_is_told_what_to_set(monkeypatch):
    def nowhere(_):
        raise RuntimeError("Could not determine home directory.")

    for name in ("NERFMAC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", classmethod(nowhere))
    with pytest.raises(InputError, match="NERFMAC_CACHE"):
        cache_folder()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("#!/bin/sh\nexit 0\n", ""),
        ("#!/bin/sh\necho broken; exit 1\n", "broken"),
        ("not a program", "Exec format error"),
    ],
)
def test_a_broken_compiler_is_named_with_its_answer(tmp_path, monkeypatch, text, answer):
    compiler = tmp_path / "c++"
    compiler.write_text(text)
    compiler.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: str(compiler))
    with pytest.raises(build.BuildError, match=f"{compiler}.*{answer}"):
        build.compiler_version.__wrapped__()


@pytest.mark.parametrize("has_tools", [False, True])
def test_a_mac_s_stand_in_for_a_compiler_is_used_only_with_apple_s_tools(monkeypatch, has_tools):
    asked = []

    def run(command, **_options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0 if has_tools else 2, "", "")

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build.platform, "system", lambda: "Darwin")
    there = {"c++": "/usr/bin/c++"}
    monkeypatch.setattr(build.shutil, "which", there.get)
    monkeypatch.setattr(build.subprocess, "run", run)
    found = build.compiler.__wrapped__
    if has_tools:
        assert found() == "/usr/bin/c++"
    else:
        with pytest.raises(BuildError, match=r"no C\+\+ compiler.*xcode-select --install"):
            found()
    assert asked == [["xcode-select", "-p"]]
