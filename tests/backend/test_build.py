"""Cached files of the compiler: complete keys, atomic writes, and concurrent processes."""

import ctypes
import subprocess
import threading

import pytest

from nerfmac.backend import build, host
from nerfmac.backend.build import BuildError, Library

SOURCE = 'extern "C" int answer() { return 42; }\n'
TOY = Library("toy", (("toy.cpp", SOURCE),))


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
        {"sources": (("toy.cpp", SOURCE + " "),)},
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
    libraries = [Library(f"toy{i}", (("toy.cpp", SOURCE),)) for i in range(3)]
    build.compile_together([*libraries, *libraries])
    assert sorted(cache.iterdir()) == sorted(each.path() for each in libraries)
    assert [answer(each.path()) for each in libraries] == [42] * 3


def test_of_libraries_compiled_together_one_that_fails_spoils_no_other(cache):
    bad = Library("bad", (("bad.cpp", "no program"),))
    with pytest.raises(build.BuildError, match="bad-"):
        build.compile_together([bad, TOY])
    assert list(cache.iterdir()) == [TOY.path()]


def test_a_failed_build_says_what_the_compiler_said_and_leaves_nothing(cache):
    with pytest.raises(build.BuildError, match=r"toy-\w+:\n(.*\n)*.*answered"):
        build.shared_library(Library("toy", (("toy.cpp", SOURCE.replace("42", "answered")),)))
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_failed_build(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "file"))
    with pytest.raises(build.BuildError, match=f"{tmp_path}/file/toy-.*NERFMAC_CACHE"):
        build.shared_library(TOY)


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
