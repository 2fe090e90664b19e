"""A folder that is broken, absent, in the way, or of another kind is refused and not changed."""

import json

import numpy as np
import pytest

import nerfmac
from nerfmac import InputError
from nerfmac.app.capture import capture
from nerfmac.training.checkpoint import FORMAT
from tests.app.capture.structures import write_images
from tests.app.cli.refusals import refused, train_refused
from tests.scene_factory import FLAGS, write_scene


def test_resuming_on_other_views(capsys, tmp_path, run):
    other = write_scene(tmp_path / "other", test=1, train=3)
    arguments = ("train", other, "--out", run, "--resume", "--steps", 4)
    refused(capsys, tmp_path, *arguments, names=[other, "another camera for"])


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


def with_noise(data):
    middle = len(data) // 2
    return data[:middle] + np.random.default_rng(1).bytes(2000) + data[middle + 2000 :]


SPOILED = {
    "empty": (lambda data: b"", "cut short"),
    "cut": (lambda data: data[:5000], "cut short"),
    "noisy": (with_noise, "damaged"),
    "new": (lambda data: data.replace(FORMAT.encode(), b"nerfmac checkpoint 9"), "checkpoint 9'"),
}


@pytest.mark.parametrize("command", ["eval", "render", "export", "resume"])
@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_checkpoint(capsys, tmp_path, run, command, how):
    path = run / "checkpoint.safetensors"
    spoil, told = SPOILED[how]
    path.write_bytes(spoil(path.read_bytes()))
    refused(capsys, tmp_path, *words(command, run, tmp_path), names=[path, told])


def words(command, folder, tmp_path):
    """The words of a command that reads a run in `folder`."""
    if command == "resume":
        return "train", "--resume", "--out", folder
    return command, folder, *([tmp_path / "mesh.ply"] if command == "export" else [])


@pytest.fixture
def with_preview(run, monkeypatch, tmp_path):
    """A run with images and a separate video, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (run / "preview.png").write_bytes((nerfmac.builtin_scene_path() / "test/r_0.png").read_bytes())
    (run / "video.mp4").write_bytes(b"video")
    return run


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_scene_that_cannot_be_trained_on(capsys, tmp_path, scene, split):
    image = scene / split / "r_1.png"
    image.write_bytes(image.read_bytes()[:-40])  # its header is whole
    train_refused(capsys, tmp_path, scene, names=[f"{split}/r_1"])
    path = scene / f"transforms_{split}.json"
    values = json.loads(path.read_text())
    values["frames"][1]["transform_matrix"][0][0] = 3.0
    path.write_text(json.dumps(values))
    names = [f"transforms_{split}.json, frame 1 (./{split}/r_1)", "not rigid"]
    train_refused(capsys, tmp_path, scene, names=names)
    path.write_text('{"frames": [')
    train_refused(capsys, tmp_path, scene, names=[path.name, "not valid JSON"])


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Return a folder of photos that must not be captured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture, "capture_scene", lambda *_, **__: pytest.fail("captured"))
    write_images(tmp_path / "garden", ["a.png", "b.png", "c.png"])
    return tmp_path / "garden"


@pytest.fixture
def taken(tmp_path):
    """Return a folder that holds something else."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    return tmp_path / "taken"


def test_a_folder_of_something_else_is_left_alone_and_nothing_captured(
    photos, taken, tmp_path, capsys
):
    names = [f"{taken} exists already"]
    refused(capsys, tmp_path, "train", photos, *FLAGS, "--out", taken, names=names)
    with pytest.raises(InputError, match="taken exists already"):
        nerfmac.train(photos, out=taken)
    pytest.importorskip("anywidget")
    with pytest.raises(InputError, match="taken exists already"):
        nerfmac.Viewer(photos, out=taken)


@pytest.mark.parametrize("command", ["train", "inspect", "capture"])
def test_a_run_is_not_taken_for_photos(capsys, tmp_path, with_preview, command):
    names = [f"{with_preview} is a run", f"nerfmac train --out {with_preview} --resume"]
    refused(capsys, tmp_path, command, with_preview, names=names)
    read = {"train": nerfmac.train, "inspect": nerfmac.load_scene, "capture": nerfmac.capture_scene}
    with pytest.raises(nerfmac.InputError, match=f"{with_preview} is a run"):
        read[command](with_preview)
