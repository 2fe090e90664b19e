"""`train` and `Run` in Python are equivalent to the command line."""

import itertools
import json
import time

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Goal, InputError, Run, load_scene, resume, train
from tests.scene_factory import CONFIG, FLAGS, nerfmac as command, write_scene

SETTINGS = {"config": CONFIG, "progress": False}


@pytest.fixture(scope="module", autouse=True)
def device_is_given_back():
    device = mx.default_device()
    yield
    mx.set_default_device(device)


@pytest.fixture(scope="module")
def made(scene):
    return train(scene, goal=Goal(steps=40), **SETTINGS)


def test_a_loaded_run_renders_what_the_saved_one_did(made, tmp_path):
    made.save(str(tmp_path / "deep" / "run"))
    loaded = Run.load(tmp_path / "deep" / "run")
    assert loaded.config == made.config
    assert loaded.curve == made.curve
    assert loaded.rates == made.rates
    camera = made.orbit(frames=4)[1]
    assert np.array_equal(camera.pose, loaded.orbit(frames=4)[1].pose)
    for got, want in zip(loaded.render(camera), made.render(camera), strict=True):
        assert np.array_equal(got, want)


def test_train_leaves_in_a_folder_what_the_command_does(tmp_path):
    path = write_scene(tmp_path / "balls")
    scene = load_scene(path, max_images=6)
    made = train(scene, goal=Goal(steps=20), out=tmp_path / "run", **SETTINGS)
    flags = (*FLAGS, "--steps", 20, "--max-images", 6, "--no-video")
    assert command("train", path, *flags, "--out", tmp_path / "other") == 0
    one, other = tmp_path / "run", tmp_path / "other"
    assert {file.name for file in one.iterdir()} == {file.name for file in other.iterdir()}
    ours, theirs = (json.loads((folder / "metrics.json").read_text()) for folder in (one, other))
    assert ours.keys() == theirs.keys()
    same = ("psnr_test", "ssim_test", "steps", "train_views", "test_views", "seed", "extent")
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert ours["train_views"] == 6
    state = Run.load(other).state.arrays()
    for name, values in made.state.arrays().items():
        assert np.array_equal(np.array(values), np.array(state[name])), name


def interrupt_at(step):
    def interrupt(report):
        if report.state.step == step:
            raise KeyboardInterrupt

    return interrupt


def test_an_interruption_gives_the_run_as_it_stands(scene, tmp_path, caplog):
    settings = {**SETTINGS, "goal": Goal(steps=30), "on_report": interrupt_at(8)}
    in_memory, in_files = train(scene, **settings), train(scene, out=tmp_path / "run", **settings)
    assert in_memory.state.step == in_files.state.step == 8
    assert "interrupted after step 8; nerfmac.resume continues" in caplog.text
    assert Run.load(tmp_path / "run").state.step == 8


def test_a_long_run_is_saved_now_and_then(scene, tmp_path, monkeypatch):
    seen = set()

    def look(_):
        if (tmp_path / "checkpoint.safetensors").exists():
            seen.add(Run.load(tmp_path).state.step)

    clock = itertools.count(0.0, 20.0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    train(scene, goal=Goal(steps=20), out=tmp_path, on_report=look, **SETTINGS)
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)
    assert len(seen) > 3
    assert Run.load(tmp_path).state.step == 20


def test_what_cannot_be_trained_is_refused_before_anything_is_written(scene, tmp_path):
    out = tmp_path / "run"
    for words, request in {
        "steps is 0": {"goal": Goal(steps=0)},
        "steps is 2.5": {"goal": Goal(steps=2.5)},
        "seconds is nan": {"goal": Goal(seconds=float("nan"))},
        "steps and seconds cannot": {"goal": Goal(1, 1)},
        "goal is 60": {"goal": 60},
        "preset is 'huge'": {"config": "huge"},
        "config is None": {"config": None},
    }.items():
        with pytest.raises(InputError, match=words):
            train(scene, **{**SETTINGS, **request}, out=out)
    with pytest.raises(InputError, match="is not a run"):
        resume(out, scene=scene)
    assert not out.exists()
