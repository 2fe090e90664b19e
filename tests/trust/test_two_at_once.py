"""Two processes on one folder: each succeeds or exits with a line, and files are complete."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import nerfmac as library
from nerfmac.app.run import Run, Training
from nerfmac.app.scenes import cache
from nerfmac.backend.build import Library
from tests.app.capture.structures import write_images
from tests.app.cli.refusals import refused
from tests.killed import held
from tests.scene_factory import CONFIG, nerfmac


def test_of_two_captures_into_one_folder_the_second_is_refused(tmp_path, capsys):
    write_images(tmp_path / "photos", [f"{number}.png" for number in range(3)])
    out = tmp_path / "scene"
    words = ("capture", tmp_path / "photos", "--out", out)
    out.mkdir()
    with held(out) as process:
        refused(capsys, tmp_path, *words, names=[out, f"process {process.pid}"])
    # The other one was killed before it wrote anything else: this one begins.
    assert nerfmac(*words) == 2
    assert "no two of the 3 images" in capsys.readouterr().err
    assert not (out / ".lock").exists()


def test_of_two_videos_that_resume_each_other_the_second_is_refused(trained, tmp_path, capsys):
    out, run = tmp_path / "video.mp4", Run.load(trained)
    words = ("render", trained, "--frames", 2, "--device", "cpu", "--out", out)
    frames = tmp_path / "video.mp4.frames"
    frames.mkdir()
    with held(frames):
        assert nerfmac(*words, "--resume") == 2
        assert f"{frames} is in use" in capsys.readouterr().err.splitlines()[-1]
    assert nerfmac(*words, "--resume") == 0
    assert list(tmp_path.iterdir()) == [out]
    assert run.state.step == 10


def test_a_video_shows_a_checkpoint_of_a_training_that_goes_on(scene, tmp_path, capsys):
    training = Training.begin(Run.begin(scene, CONFIG, progress=False), tmp_path / "run")
    run, reports = training.run, training.fit(library.Goal(steps=40))
    words = ("render", tmp_path / "run", "--frames", 1, "--device", "cpu", "--out")
    for _ in range(2):
        next(reports)
        training.save()
        assert nerfmac(*words, tmp_path / f"{run.state.step}") == 0
    reports.close()
    images = [np.asarray(Image.open(path)) for path in tmp_path.glob("*/frame_00000.png")]
    assert len(images) == 2
    assert not np.array_equal(*images)


class Shared(Library):
    """A library that is compiled each time it is asked for."""


LIBRARY = Shared("shared", (("shared.cpp", 'extern "C" int number() { return 7; }'),))


def compile_kernel(_index):
    LIBRARY.compile(LIBRARY.path())


def read_kernel():
    assert ctypes.CDLL(str(LIBRARY.path())).number() == 7


def cache_path():
    return cache.image_cache_folder() / "photo.png"


def keep_image(index):
    cache.write_cached(cache_path(), np.full((300, 400, 3), 50 + index, np.uint8))


def read_image():
    found = cache.read_cached(cache_path())
    assert found is not None
    assert found.shape == (300, 400, 3)


CACHES = {
    "kernels": (compile_kernel, read_kernel, LIBRARY.path),
    "images": (keep_image, read_image, cache_path),
}

WRITE = """import sys
from tests.trust.test_two_at_once import CACHES
for _ in range(int(sys.argv[3])):
    CACHES[sys.argv[1]][0](int(sys.argv[2]))
"""


@pytest.mark.parametrize(("name", "times"), [("kernels", 4), ("images", 60)])
def test_a_cache_is_whole_while_two_processes_write_it(tmp_path, monkeypatch, name, times):
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path))
    _, read, path = CACHES[name]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, name, str(index), str(times)])
        for index in range(2)
    ]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        if path().exists():
            read()
            reads += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert reads > 10
    assert os.listdir(path().parent) == [path().name]
