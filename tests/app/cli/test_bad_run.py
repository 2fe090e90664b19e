"""A folder that is broken, absent, in the way, or of another kind is refused and not changed."""

import json

import numpy as np
import pytest

import nerfmac
from nerfmac.app.run import Run
from nerfmac.training.checkpoint import FORMAT
from tests.app.cli.refusals import refused
from tests.scene_factory import FLAGS, write_scene


def test_a_run_folder_that_exists(capsys, tmp_path, scene, run):
    refused(capsys, tmp_path, "train", scene, *FLAGS, "--out", run, names=[run, "exists already"])
    file = tmp_path / "file"
    file.write_text("mine")
    refused(capsys, tmp_path, "train", scene, *FLAGS, "--out", file, names=[file, "exists already"])


def test_resuming_on_other_views(capsys, tmp_path, run):
    other = write_scene(tmp_path / "other", train=4)
    arguments = ("train", other, "--out", run, "--resume", "--steps", 4)
    refused(capsys, tmp_path, *arguments, names=[run, "other views of", "'other'"])


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--memory-fraction", 7), ["memory fraction is 7"]),
        (("--memory-limit", 0.01, "--preset", "big"), ["training requires at least"]),
        (("--resume",), ["has shape", "its configuration requires"]),
    ],
)
def test_what_cannot_be_trained_before_images_are_decoded(
    capsys, tmp_path, scene, run, monkeypatch, flags, names
):
    values = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**values, "grid": {"log2_entries": 11}}))
    monkeypatch.setattr("nerfmac.app.scenes.scene._decoding", lambda *_: pytest.fail("decoded"))
    given = ("train", "--out", run) if "--resume" in flags else ("train", scene)
    refused(capsys, tmp_path, *given, *flags, names=names)


@pytest.mark.parametrize("command", ["eval", "render", "resume"])
@pytest.mark.parametrize("left", [0, 5000])
def test_a_checkpoint_cut_short(capsys, tmp_path, run, command, left):
    path = run / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:left])
    arguments = ("train", "--resume", "--out", run) if command == "resume" else (command, run)
    refused(capsys, tmp_path, *arguments, names=[path, "cut short"])


@pytest.mark.parametrize("command", ["eval", "export", "resume"])
def test_a_checkpoint_with_noise_in_its_middle(capsys, tmp_path, run, command):
    path = run / "checkpoint.safetensors"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = np.random.default_rng(1).bytes(2000)
    path.write_bytes(data)
    arguments = {
        "resume": ("train", "--resume", "--out", run),
        "export": ("export", run, tmp_path / "mesh.ply"),
    }.get(command, (command, run))
    refused(capsys, tmp_path, *arguments, names=[path, "damaged"])


def test_a_checkpoint_of_another_version(capsys, tmp_path, run):
    path = run / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes().replace(FORMAT.encode(), b"nerfmac checkpoint 9"))
    refused(capsys, tmp_path, "eval", run, names=[path, "'nerfmac checkpoint 9'"])


def test_a_run_without_its_checkpoint(capsys, tmp_path, run):
    (run / "checkpoint.safetensors").unlink()
    refused(capsys, tmp_path, "eval", run, names=["checkpoint.safetensors does not exist"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", ["config.json", "not valid JSON"]),
        ('{"girth": 3}', ["config: girth is unknown"]),
        ('{"grid": {"levels": "eight"}}', ['config.grid: levels is "eight"']),
        ('{"grid": {"levels": 1000}}', ["grid.levels is 1000"]),
    ],
)
def test_a_configuration_that_is_broken(capsys, tmp_path, run, text, names):
    (run / "config.json").write_text(text)
    refused(capsys, tmp_path, "render", run, names=names)


@pytest.mark.parametrize("text", ["{", "[]", '{"cameras": [{}]}', '{"cameras": 3}'])
def test_a_scene_record_that_is_broken(capsys, tmp_path, run, text):
    (run / "scene.json").write_text(text)
    refused(capsys, tmp_path, "render", run, names=["scene.json"])


def test_a_split_that_is_not_there(capsys, tmp_path, run):
    refused(capsys, tmp_path, "eval", run, "--split", "val", names=["no 'val' views"])
    out = tmp_path / "bare"
    Run.load(run).save(out)
    bare = write_scene(tmp_path / "scene", test=0, train=3)
    record = json.loads((out / "scene.json").read_text())
    (out / "scene.json").write_text(json.dumps({**record, "path": str(bare)}))
    refused(capsys, tmp_path, "eval", out, names=["no 'test' views"])
    refused(capsys, tmp_path, "render", out, "--path", "test", names=["no 'test' views"])


@pytest.fixture
def with_preview(run, monkeypatch, tmp_path):
    """A run with images and a separate video, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (run / "preview.png").write_bytes((nerfmac.builtin_scene_path() / "test/r_0.png").read_bytes())
    (run / "video.mp4").write_bytes(b"video")
    return run


@pytest.mark.parametrize("command", ["train", "inspect", "capture"])
def test_a_run_is_not_taken_for_photos(capsys, tmp_path, with_preview, command):
    names = [f"{with_preview} is a run", f"nerfmac train --out {with_preview} --resume"]
    refused(capsys, tmp_path, command, with_preview, names=names)


def test_a_run_is_no_scene_in_a_notebook(with_preview, tmp_path):
    before = set(tmp_path.rglob("*"))
    for read in (nerfmac.load_scene, nerfmac.train, nerfmac.capture_scene):
        with pytest.raises(nerfmac.InputError, match=f"{with_preview} is a run"):
            read(with_preview)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", ["render", "export", "resume"])
def test_a_scene_is_no_run(capsys, tmp_path, scene, command):
    arguments = {
        "resume": ("train", "--resume", "--out", scene),
        "export": ("export", scene, tmp_path / "mesh.ply"),
    }.get(command, (command, scene))
    names = [f"{scene} is a scene", f"nerfmac train {scene}"]
    refused(capsys, tmp_path, *arguments, names=names)
