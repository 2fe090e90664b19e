"""`nerfmac train` saves a complete run; `--resume` continues it and rejects other folders."""

import json
import math

import numpy as np
import pytest
from PIL import Image

from nerfmac import Goal, InputError, Run, resume
from tests.scene_factory import FLAGS, HEIGHT, WIDTH, nerfmac

STEPS = 40
FILES = {
    *("config.json", "scene.json", "checkpoint.safetensors", "metrics.json", "preview.png"),
    "scalars.jsonl",
}
METRICS = {
    **dict.fromkeys(("device", "device_name", "backend", "mlx_version", "preset"), str),
    **dict.fromkeys(("background", "held_out"), str),
    **dict.fromkeys(("steps", "test_views", "test_views_in_scene", "peak_memory_bytes"), int),
    **dict.fromkeys(("seed", "traces", "needless_traces", "train_views"), int),
    **dict.fromkeys(("train_seconds", "kernel_build_seconds", "wall_seconds"), float),
    **dict.fromkeys(("psnr_test", "ssim_test", "psnr_corrected_test"), float),
    **dict.fromkeys(("samples_per_second", "rays_per_second"), float),
    "psnr_curve": list,
}


@pytest.fixture(scope="module")
def folder(balls, tmp_path_factory):
    """A run of STEPS steps, made by the command line."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    arguments = ("train", balls, *FLAGS, "--steps", STEPS, "--seed", 3, "--out", folder)
    assert nerfmac(*arguments, "--no-video") == 0
    return folder


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def state_of(folder):
    return Run.load(folder).state


def test_a_video_that_fails_leaves_all_else(balls, tmp_path, monkeypatch):
    def fail(*_):
        raise InputError("no program to write videos with")

    monkeypatch.setattr("nerfmac.app.cli.train.save_turntable", fail)
    out = tmp_path / "run"
    assert nerfmac("train", balls, *FLAGS, "--steps", 20, "--out", out) == 2
    assert {path.name for path in out.iterdir()} == FILES


def test_a_run_holds_its_files_and_tells_all_its_figures(folder):
    assert {path.name for path in folder.iterdir()} == FILES
    told = metrics(folder)
    for name, kind in METRICS.items():
        assert type(told[name]) is kind, f"{name} is {told[name]!r}"
    for name, value in told.items():
        if isinstance(value, float):
            assert math.isfinite(value), f"{name} is {value}"
    assert told["steps"] == STEPS
    assert told["seed"] == 3
    assert told["preset"] == "tiny"
    assert told["test_views"] == told["test_views_in_scene"] == 2
    assert told["test_measured"] == "2 test views"
    assert (told["train_views"], told["extent"]) == (8, 1.0)
    assert (told["split"], told["held_out"]) == (None, "from the scene files")
    assert told["background"] == "white"
    assert (told["device"], told["backend"]) == ("cpu", "cpu")
    assert 0 < told["train_seconds"] < told["wall_seconds"]
    assert told["peak_memory_bytes"] > 2**25, "of the whole process on a CPU"


def test_the_preview_shows_the_first_test_view_beside_its_photo(balls, folder):
    with Image.open(folder / "preview.png") as image:
        preview = np.asarray(image)
    assert preview.shape == (HEIGHT, 2 * WIDTH, 3)
    with Image.open(balls / "test" / "r_0.png") as image:
        photo = np.asarray(image).astype(float)
    alpha = photo[..., 3:] / 255
    over_white = photo[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(preview[:, WIDTH:] - over_white).max() < 2


def test_the_seconds_asked_for_end_a_run_and_without_a_name_it_is_under_runs(
    balls, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert nerfmac("train", balls, *FLAGS, "--seconds", 0.3, "--no-video") == 0
    (out,) = (tmp_path / "runs").iterdir()
    assert out.name.startswith("balls-")
    assert 0.3 <= metrics(out)["train_seconds"] < 2.0


def test_a_finished_run_is_resumed_to_more_steps_on_its_own_scene(folder, tmp_path):
    # Neither the scene nor the configuration is named again.
    out = tmp_path / "run"
    Run.load(folder).save(out)
    resumed = ("train", "--resume", "--out", out, "--steps", STEPS + 8, "--no-video")
    assert nerfmac(*resumed, "--device", "cpu") == 0
    assert state_of(out).step == metrics(out)["steps"] == STEPS + 8
    assert metrics(out)["test_views"] == 2
    assert metrics(out)["psnr_curve"][: len(metrics(folder)["psnr_curve"])]


def test_a_run_keeps_to_its_split_when_resumed(balls, tmp_path, capsys):
    out = tmp_path / "run"
    first = ("train", balls, *FLAGS, "--steps", 1, "--split", 3, "--out", out, "--no-video")
    assert nerfmac(*first) == 0
    assert metrics(out)["test_views"] == 3
    assert nerfmac("train", "--resume", "--out", out, "--steps", 2, "--no-video") == 0
    assert metrics(out)["test_views"] == 3
    refused_to_resume = (
        (("--split", 4), "--split sets split to 4, but the run"),
        (("--no-masks",), "--no-masks sets masks to False, but the run"),
        (("--grid.levels", 4), "remove --grid.levels, or start"),
        (("--no-refine.poses", "--seed", 3), "remove --refine.poses and --seed, or start"),
        (("--model", "vanilla"), "remove --model, or start"),
    )
    for flags, why in refused_to_resume:
        assert nerfmac("train", "--resume", "--out", out, "--steps", 3, *flags) == 2
        assert why in capsys.readouterr().err


def test_a_run_keeps_its_cube_its_up_and_its_split_by_name(balls, tmp_path, capsys):
    out, names = tmp_path / "run", tmp_path / "test.txt"
    names.write_text("train/r_6\ntrain/r_2\n")
    asked = ("--extent", 1.5, "--up", "-y", "--split", names)
    first = ("train", balls, *FLAGS, "--steps", 1, *asked, "--out", out, "--no-video")
    assert nerfmac(*first) == 0
    assert "(split: 2 by name)" in capsys.readouterr().out
    names.unlink()
    loaded = Run.load(out)
    assert (loaded.scene.extent, loaded.scene.up) == (1.5, (0.0, -1.0, 0.0))
    assert [camera.pose[1, 3] for camera in loaded.orbit(2)] == pytest.approx(
        [loaded.orbit(2)[0].pose[1, 3]] * 2, abs=1e-5
    ), "an orbit's cameras stay at a height, along -y here"
    views = [frame.name for frame in loaded.images().splits["test"]]
    assert views == ["train/r_2", "train/r_6"]
    again = ("train", "--resume", "--out", out, "--steps", 2, "--no-video")
    for flags in (("--extent", 2), ("--up", "z"), ("--up", "auto"), ("--split", "none")):
        assert nerfmac(*again, *flags) == 2
        assert f"{flags[0]} sets {flags[0][2:]} to " in capsys.readouterr().err
    assert nerfmac(*again, "--extent", 1.5, "--up=0,-2,0") == 0
    told = metrics(out)
    assert told["split"] == ["train/r_6", "train/r_2"]
    assert (told["extent"], told["train_views"], told["test_views"]) == (1.5, 6, 2)
    resumed = resume(out, Goal(steps=3), scene=balls, progress=False)
    assert resumed.scene.options == loaded.scene.options
