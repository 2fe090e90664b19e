"""After training, `nerfmac train` skips outputs that would take too long, and logs which."""

import itertools
import json
import time
from dataclasses import replace

import imageio_ffmpeg
import pytest
from PIL import Image

from nerfmac.app.cli import train as command
from nerfmac.app.run import Run
from nerfmac.app.scenes import load_scene
from nerfmac.backend import choose_device
from nerfmac.rendering.renderer import Renderer
from tests.scene_factory import CONFIG, FLAGS, HEIGHT, WIDTH, nerfmac, write_scene

VIEWS = 70


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scenes") / "balls", test=VIEWS)


class Clock:
    """Simulated clock that advances a little with each call, and while images are rendered."""

    def __init__(self, monkeypatch):
        self.now, self.image = 0.0, 0.0  # seconds
        see = Renderer.see

        def slow(renderer, rays, width=0):
            self.now += self.image * rays.origin.shape[0] / (WIDTH * HEIGHT)
            return see(renderer, rays, width)

        monkeypatch.setattr(Renderer, "see", slow)
        monkeypatch.setattr(time, "perf_counter", self.look)

    def look(self):
        self.now += 1e-4
        return self.now


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def train(scene, tmp_path, caplog):
    """Train with the command line; return the folder, the metrics, and messages about time."""
    numbers = itertools.count()

    def run(*flags):
        out = tmp_path / f"run {next(numbers)}"
        caplog.clear()
        assert nerfmac("train", scene, *FLAGS, "--steps", 4, "--out", out, *flags) == 0
        told = json.loads((out / "metrics.json").read_text())
        said = [record.getMessage() for record in caplog.records]
        return (
            out,
            told,
            [words for words in said if words.startswith(("to save time", "not enough time"))],
        )

    return run


def frames_of(video):
    return imageio_ffmpeg.count_frames_and_secs(str(video))[0]


def test_the_command_ends_in_twice_the_training_time_and_half_a_minute(train, clock):
    clock.image = 0.25
    out, told, (video, views) = train()
    assert clock.now < 2 * told["train_seconds"] + 30
    assert 40 < told["test_views"] < VIEWS == told["test_views_in_scene"]
    assert told["test_row_fraction"] == 1.0
    only = f"{told['test_views']} of {VIEWS} test views"
    assert told["test_measured"] == only
    assert views == f"to save time, only {only} were evaluated; --all-views evaluates all"
    count = frames_of(out / "video.mp4")
    assert 24 <= count < 48
    assert video == f"to save time, video.mp4 has {count} frames of {WIDTH}x{HEIGHT} pixels"


def test_rather_than_a_video_of_few_frames_there_is_none(train, clock):
    clock.image = 2.0
    out, _, (said, _) = train()
    assert not (out / "video.mp4").exists()
    assert f"`nerfmac render {out}`" in said
    assert (out / "metrics.json").is_file()


@pytest.mark.parametrize(
    ("photo", "cost", "size", "frames"),
    [
        ((1280, 720), 1e-9, (853, 480), 48),
        ((720, 1280), 1e-9, (480, 853), 48),
        ((300, 200), 1e-9, (300, 200), 48),
        ((1280, 720), 1e-6, (853, 480), 29),
        ((1280, 720), 5e-6, (421, 237), 24),
        ((1280, 720), 1e-4, None, 0),
    ],
)
def test_a_video_s_shorter_side_has_480_pixels_or_those_of_the_photos(
    balls, tmp_path, monkeypatch, photo, cost, size, frames
):
    choose_device("cpu")
    run = Run.begin(load_scene(balls), CONFIG, out=tmp_path / "run", progress=False)
    cameras = tuple(replace(c, lens=c.lens.scaled(*photo)) for c in run.scene.cameras)
    run.scene = replace(run.scene, cameras=cameras)
    made = []
    monkeypatch.setattr(
        command, "render_video", lambda run, cameras, *_, **__: made.extend(cameras)
    )
    monkeypatch.setattr(command, "seconds_per_pixel", lambda *_: cost)
    command.save_turntable(run, 30.0)
    assert len(made) == frames
    for camera in made:
        width, height = camera.lens.width, camera.lens.height
        assert abs(width - size[0]) <= 1
        assert abs(height - size[1]) <= 1


def test_the_last_line_names_the_video_and_the_next_command(train, clock, capsys):
    clock.image = 0.01
    out, told, said = train()
    assert told["test_views"] == told["test_views_in_scene"] == VIEWS
    assert (frames_of(out / "video.mp4"), said) == (48, [])
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"wrote a turntable video to {out / 'video.mp4'}")
    assert f"`nerfmac view '{out}'`" in last
    out, _, _ = train("--no-video")
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"render a video with `nerfmac render '{out}'`")


def test_of_images_that_take_too_long_a_part_is_made(train, clock, capsys):
    clock.image = 25.0
    out, told, (views, preview) = train("--no-video")
    assert (told["test_views"], told["test_row_fraction"]) == (1, 11 / HEIGHT)
    part = f"the middle 69 % of 1 of {VIEWS} test views"
    assert (told["test_views_in_scene"], told["test_measured"]) == (VIEWS, part)
    assert views == f"to save time, only {part} were evaluated; --all-views evaluates all"
    assert f"dB, SSIM {told['ssim_test']:.3f} on {part} (" in capsys.readouterr().out
    with Image.open(out / "preview.png") as image:
        width, height = image.width // 2, image.height
    assert width * height * 25.0 / (WIDTH * HEIGHT) < 6.0
    shown = f"{width}x{height} pixels instead of {WIDTH}x{HEIGHT}"
    assert preview == f"to save time, preview.png has {shown}"
