"""The video and the evaluation after training do not depend on the training time, and `nerfmac`
announces how long they take."""

import json
import logging

import imageio_ffmpeg
import pytest

from nerfmac.app.run import HeldOut, Run, drained, headline
from tests.scene_factory import FLAGS, HEIGHT, WIDTH, nerfmac, write_scene

VIEWS = 5


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scenes") / "balls", test=VIEWS)


@pytest.fixture
def train(scene, tmp_path, caplog):
    """Train with the command line; return the metrics and the messages."""
    caplog.set_level(logging.INFO, "nerfmac")

    def run(*flags):
        caplog.clear()
        flags = flags if "--resume" in flags else (scene, *FLAGS, *flags)
        assert nerfmac("train", *flags, "--out", tmp_path / "run") == 0
        return json.loads((tmp_path / "run" / "metrics.json").read_text()), caplog.messages

    return run


@pytest.fixture
def few(monkeypatch):
    """On a CPU, two test views are measured."""
    monkeypatch.setattr(headline, "CPU_PIXELS", 2 * WIDTH * HEIGHT)


def film_of(video):
    size = next(imageio_ffmpeg.read_frames(str(video)))["size"]
    return imageio_ffmpeg.count_frames_and_secs(str(video))[0], size


def test_continuing_for_a_moment_changes_neither_the_film_nor_the_views(train, tmp_path, few):
    video = tmp_path / "run" / "video.mp4"
    told, _ = train("--steps", 9)
    first = film_of(video)
    assert first == (96, (WIDTH, HEIGHT))
    assert (told["test_views"], told["test_measured"]) == (2, "2 of 5 test views")
    again, _ = train("--resume", "--steps", 10)
    assert film_of(video) == first
    assert again["test_measured"] == told["test_measured"]
    assert again["steps"] == 10


def test_a_measurement_is_repeated_only_for_another_step_and_over_as_many_views(run, few):
    loaded = Run.load(run)
    first = drained(HeldOut.measuring(loaded))
    assert (first.views, first.of, first.step) == (2, 2, 2)
    assert drained(HeldOut.measuring(loaded, first)) is first
    for known in (first._replace(step=1), first._replace(views=1)):
        assert drained(HeldOut.measuring(loaded, known)) == first
    assert HeldOut.read(run, 2) == first
