"""`nerfmac render` and `nerfmac eval` show and measure a saved run."""

import json
import re
import subprocess
import sys

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from nerfmac.run import train
from nerfmac.scenes import load_scene
from tests.conftest import ROOT
from tests.scene_factory import CONFIG, HEIGHT, WIDTH, nerfmac, write_scene


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    scene = load_scene(write_scene(place / "balls"))
    train(scene, steps=150, device="cpu", config=CONFIG, out=place / "run", progress=False)
    return place / "run"


def decoded(path):
    """All frames of a video, (n, h, w, 3) uint8."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-fps_mode", "passthrough"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    ran = subprocess.run(command, capture_output=True, check=True)
    stream = next(line for line in ran.stderr.decode().splitlines() if "Video: h264" in line)
    width, height = map(int, re.search(r", (\d+)x(\d+)", stream).groups())
    return np.frombuffer(ran.stdout, np.uint8).reshape(-1, height, width, 3)


def pictures(folder):
    return [np.asarray(Image.open(path)).copy() for path in sorted(folder.glob("frame_*.png"))]


def test_a_turn_is_a_video_of_as_many_frames_as_asked_for(folder, tmp_path):
    out = tmp_path / "turn.mp4"
    assert nerfmac("render", folder, "--frames", 5, "--out", out) == 0
    frames = decoded(out)
    assert frames.shape == (5, HEIGHT, WIDTH, 3)
    assert all(frame.std() > 5 for frame in frames), "a frame shows nothing"
    assert not np.array_equal(frames[0], frames[2])


def test_without_a_name_the_video_lies_in_the_run(folder):
    assert nerfmac("render", folder, "--frames", 1) == 0
    assert decoded(folder / "orbit.mp4").shape[0] == 1


@pytest.mark.parametrize("path", ["orbit", "test"])
def test_a_video_has_even_sides_whatever_was_asked_for(folder, tmp_path, path):
    out = tmp_path / "odd.mp4"
    flags = ("--path", path, "--frames", 1, "--size", "33x21", "--out", out)
    assert nerfmac("render", folder, *flags) == 0
    _, height, width, _ = decoded(out).shape
    assert (height % 2, width % 2) == (0, 0)
    assert abs(height - 21) <= 1
    assert abs(width - 33) <= 1


def test_the_test_path_is_the_test_cameras_and_a_folder_gets_pictures(folder, tmp_path, capsys):
    out = tmp_path / "frames"
    assert nerfmac("render", folder, "--path", "test", "--out", out) == 0
    assert capsys.readouterr().out == f"{out}\n"
    rendered = pictures(out)
    assert len(rendered) == 2
    for index, picture in enumerate(rendered):
        with Image.open(folder.parent / "balls" / "test" / f"r_{index}.png") as file:
            photograph = np.asarray(file).astype(float)
        alpha = photograph[..., 3:] / 255
        errors = [
            np.square(picture - photograph[..., :3] * alpha - 255 * (1 - alpha)).mean()
            for picture in (picture, rendered[1 - index])
        ]
        assert errors[0] < errors[1], f"frame {index} is nearer to the other view"


def test_the_background_lies_behind_the_scene(folder, tmp_path):
    corner = {}
    for background in ("white", "black"):
        out = tmp_path / background
        flags = ("--path", "test", "--out", out, "--background", background)
        assert nerfmac("render", folder, *flags) == 0
        corner[background] = pictures(out)[0][:3].mean()
    assert corner["white"] > corner["black"] + 60


def test_the_script_renders_as_the_verb_does(folder, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    arguments = ("render", folder, "--frames", 2, "--device", "cpu", "--out")
    assert nerfmac(*arguments, one) == 0
    script = [sys.executable, ROOT / "scripts" / "render_video.py", *arguments[1:], other]
    subprocess.run([str(word) for word in script], check=True, capture_output=True)
    for got, want in zip(pictures(other), pictures(one), strict=True):
        assert np.array_equal(got, want)


def test_eval_prints_each_view_and_writes_the_same_figures(folder, tmp_path, capsys):
    file = tmp_path / "quality.json"
    assert nerfmac("eval", folder, "--json", file, "--device", "cpu") == 0
    told = json.loads(file.read_text())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for name, line in zip(told["views"], lines, strict=False):
        assert line.startswith(name)
        assert f"{told['views'][name]['psnr']:.2f} dB" in line
    assert f"{told['psnr_test']:.2f} dB  SSIM {told['ssim_test']:.4f}" in lines[-1]
    views = told["views"].values()
    assert told["psnr_test"] == pytest.approx(np.mean([view["psnr"] for view in views]))
    assert told["ssim_test"] == pytest.approx(np.mean([view["ssim"] for view in views]))
    assert (told["test_views"], told["background"], told["device"]) == (2, "white", "cpu")


def test_eval_measures_what_render_shows(folder, tmp_path):
    out, file = tmp_path / "frames", tmp_path / "quality.json"
    assert nerfmac("render", folder, "--path", "test", "--out", out) == 0
    assert nerfmac("eval", folder, "--json", file) == 0
    told = json.loads(file.read_text())["views"]
    for index, (picture, view) in enumerate(zip(pictures(out), told.values(), strict=True)):
        with Image.open(folder.parent / "balls" / "test" / f"r_{index}.png") as photograph:
            target = np.asarray(photograph).astype(float) / 255
        target = target[..., :3] * target[..., 3:] + 1 - target[..., 3:]
        psnr = -10 * np.log10(np.square(picture / 255 - target).mean())
        assert psnr == pytest.approx(view["psnr"], abs=0.05)  # the pictures are rounded


def test_eval_measures_the_split_it_is_told(folder, tmp_path):
    file = tmp_path / "quality.json"
    flags = ("--split", "train", "--background", "black", "--json", file)
    assert nerfmac("eval", folder, *flags) == 0
    told = json.loads(file.read_text())
    assert (told["train_views"], told["background"]) == (8, "black")
    assert told["psnr_train"] > 10
