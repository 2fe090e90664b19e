"""After a power failure at any moment, a file is complete, in its old or its new version.

`Disk` watches a folder while a file is written. It records the possible contents of a disk after a
power failure: for each file the flushed bytes (fsync), or none, and for the folder the names at its
last flush or any later ones, because renames reach a disk on their own.
"""

import os
import stat

import numpy as np
import pytest

from nerfmac import Goal, resume, train
from nerfmac.app.video.encoding import save_png, write_video
from nerfmac.backend.build import Library
from nerfmac.common.files import write_json
from nerfmac.training.checkpoint import save_checkpoint
from tests.scene_factory import CONFIG


class Disk:
    """Possible contents of the disk after each step of a writer: `states`, the last one last."""

    def __init__(self, folder, monkeypatch):
        self._folder = folder
        self._flushed = {path.stat().st_ino: path.read_bytes() for path in folder.iterdir()}
        self._names = self._now()
        self.states = []
        for name in ("fsync", "replace", "rename", "open"):
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, function):
        def call(*arguments, **keywords):
            result = function(*arguments, **keywords)
            if function.__name__ == "fsync":
                self._flush(*arguments)
            for names in (self._now(), self._names):
                self.states.append({name: self._flushed.get(i, b"") for name, i in names.items()})
            return result

        return call

    def _flush(self, file):
        about = os.fstat(file)
        if stat.S_ISDIR(about.st_mode):
            self._names = self._now()
        else:
            self._flushed[about.st_ino] = os.pread(file, about.st_size, 0)

    def _now(self):
        return {path.name: path.stat().st_ino for path in self._folder.iterdir()}


def kernel(path, text):
    class Chosen(Library):
        def path(self):
            return path

    Chosen("k", (("k.cpp", f"extern {text}"),)).compile(path)


@pytest.fixture(scope="module")
def states(scene):
    """Return run states after two steps and after four."""
    run = train(scene, config=CONFIG, goal=Goal(steps=2), progress=False)
    first = run.state
    resume(run, Goal(steps=4), progress=False)
    return first, run.state


FRAMES = np.random.default_rng(4).integers(0, 255, (2, 3, 16, 20, 3), np.uint8)
WRITERS = {
    "run.json": [lambda path: write_json(path, ["old"]), lambda path: write_json(path, ["new"])],
    "frame.png": [lambda path, i=i: save_png(path, FRAMES[i, 0]) for i in (0, 1)],
    "video.mp4": [lambda path, i=i: write_video(path, FRAMES[i], 5) for i in (0, 1)],
    "kernel.so": [
        lambda path, name=name: kernel(path, f'"C" int {name}() {{ return 1; }}')
        for name in ("one", "two")
    ],
}


def assert_old_or_new(path, write, monkeypatch):
    """Hold `write(path)` to the law; `path` exists."""
    old = path.read_bytes()
    with monkeypatch.context() as patch:
        disk = Disk(path.parent, patch)
        write(path)
    new = path.read_bytes()
    assert new != old
    assert len(disk.states) > 4
    for state in disk.states:
        assert state[path.name] in (old, new), f"{len(state[path.name])} bytes of {len(new)}"
    assert [state[path.name] == new for state in disk.states[-2:]] == [True, True], "it may be lost"


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_the_old_or_the_new_one(tmp_path, monkeypatch, name):
    first, second = WRITERS[name]
    first(tmp_path / name)
    assert_old_or_new(tmp_path / name, second, monkeypatch)


def test_a_checkpoint_is_the_old_or_the_new_one(tmp_path, monkeypatch, states):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, states[0], {})
    assert_old_or_new(path, lambda path: save_checkpoint(path, states[1], {}), monkeypatch)


def test_a_disk_that_cannot_flush_is_written_to(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(22, "Invalid argument")  # network disks

    monkeypatch.setattr(os, "fsync", refuse)
    write_json(tmp_path / "a.json", [1])
    assert (tmp_path / "a.json").read_text() == "[\n  1\n]\n"


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_mac_flushes_the_drives_cache_too(tmp_path, monkeypatch, is_refused):
    asked = []

    def full_flush(file, what):
        asked.append((os.fstat(file).st_ino, what))
        if is_refused:
            raise OSError(45, "Operation not supported")

    monkeypatch.setattr("fcntl.F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr("fcntl.fcntl", full_flush)
    write_json(tmp_path / "a.json", [1])
    written = tmp_path / "a.json"
    assert asked == [(written.stat().st_ino, 51), (tmp_path.stat().st_ino, 51)]
