"""`nerfmac render` and `nerfmac eval` show and measure a saved run."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from nerfmac.paths import CameraPath, Keyframe
from nerfmac.run import Run, train
from nerfmac.scenes import load_scene
from tests.conftest import ROOT
from tests.decoding import decoded
from tests.scene_factory import CONFIG, HEIGHT, WIDTH, nerfmac, write_scene


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    scene = load_scene(write_scene(place / "balls"))
    train(scene, steps=150, device="cpu", config=CONFIG, out=place / "run", progress=False)
    return place / "run"


def pictures(folder):
    return [np.asarray(Image.open(path)).copy() for path in sorted(folder.glob("frame_*.png"))]


def test_a_turn_is_a_video_of_as_many_frames_as_asked_for(folder, tmp_path):
    out = tmp_path / "film.mp4"
    assert nerfmac("render", folder, "--frames", 5, "--out", out) == 0
    _, frames = decoded(out)
    assert frames.shape == (5, HEIGHT, WIDTH, 3)
    assert all(frame.std() > 5 for frame in frames), "a frame shows nothing"
    assert not np.array_equal(frames[0], frames[2])


def test_without_a_name_the_video_lies_in_the_run(folder):
    assert nerfmac("render", folder, "--frames", 1) == 0
    assert len(decoded(folder / "orbit.mp4")[1]) == 1


@pytest.mark.parametrize("path", ["orbit", "test"])
def test_a_video_of_odd_size_is_the_next_smaller_even_one_and_says_so(
    folder, tmp_path, path, capsys
):
    out = tmp_path / "odd.mp4"
    flags = ("--path", path, "--frames", 1, "--out", out, "--overwrite")
    assert nerfmac("render", folder, *flags, "--size", "33x21") == 0
    assert decoded(out)[1].shape[1:3] == (20, 32)
    assert "the video is 32x20 and not 33x21: H.264" in capsys.readouterr().err
    assert nerfmac("render", folder, *flags, "--size", "32x20") == 0
    assert "H.264" not in capsys.readouterr().err


@pytest.mark.parametrize("path", ["orbit", "test", "tour.json"])
def test_pictures_keep_an_odd_size(folder, tmp_path, path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run.load(folder)
    CameraPath([Keyframe(each.pose, 0.6) for each in run.scene.cameras[:2]]).save("tour.json")
    flags = ("--path", path, "--frames", 1, "--out", "frames", "--size", "33x21")
    assert nerfmac("render", folder, *flags) == 0
    assert {picture.shape for picture in pictures(tmp_path / "frames")} == {(21, 33, 3)}
    assert "H.264" not in capsys.readouterr().err


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


def test_a_saved_camera_path_is_rendered_from_its_first_keyframe_to_its_last(folder, tmp_path):
    run = Run.load(folder)
    keyframes = [Keyframe(run.scene.cameras[index].pose, 0.5 + 0.2 * index) for index in range(3)]
    CameraPath(keyframes).save(tmp_path / "tour.JSON")
    out = tmp_path / "frames"
    flags = ("--path", tmp_path / "tour.JSON", "--frames", 4, "--size", "32x24", "--out", out)
    assert nerfmac("render", folder, *flags) == 0
    rendered = pictures(out)
    assert len(rendered) == 4
    for picture, keyframe in ((rendered[0], keyframes[0]), (rendered[-1], keyframes[-1])):
        want = 255.0 * run.render(keyframe.camera(32, 24)).colour
        assert np.abs(picture - want).max() < 2.0
    assert np.abs(rendered[1].astype(float) - rendered[2]).mean() > 1.0


def test_a_saved_camera_paths_video_is_named_after_it_and_as_large_as_the_photographs(
    folder, tmp_path
):
    CameraPath([Keyframe(Run.load(folder).scene.cameras[1].pose, 0.6)]).save(
        tmp_path / "still.json"
    )
    assert nerfmac("render", folder, "--path", tmp_path / "still.json", "--frames", 2) == 0
    assert decoded(folder / "still.mp4")[1].shape == (2, HEIGHT, WIDTH, 3)


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
    assert len(lines) == 4
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


@pytest.mark.parametrize(
    ("out", "flags", "kept"),
    [
        ("a.mp4", (), "no part of {out} is kept; with --resume its frames would be"),
        ("a.mp4", ("--resume",), "its frames so far are in {out}.frames, and the same command"),
        ("frames", (), "its frames so far are in {out}; with --resume the same command goes on"),
    ],
)
def test_an_interrupted_film_says_in_one_line_what_is_kept(
    folder, tmp_path, capsys, monkeypatch, out, flags, kept
):
    def film(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nerfmac.cli.render.film", film)
    out = tmp_path / out
    capsys.readouterr()
    assert nerfmac("render", folder, "--frames", 2, "--out", out, *flags) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"nerfmac: interrupted; {kept.format(out=out)}")
