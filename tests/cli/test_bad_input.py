"""What cannot be done is refused in one line that names the culprit, and nothing is written."""

import json
import math

import numpy as np
import pytest
from PIL import Image

from nerfmac.backend.device import gpu
from nerfmac.config import Config, override
from nerfmac.run import Run, train
from nerfmac.scenes import load_scene
from tests.scene_factory import CONFIG, FLAGS, nerfmac, write_scene


@pytest.fixture
def scene(tmp_path):
    return write_scene(tmp_path / "balls", train=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run to make copies of."""
    place = tmp_path_factory.mktemp("made")
    scene = load_scene(write_scene(place / "balls", train=3))
    train(scene, steps=2, device="cpu", config=CONFIG, out=place / "run", progress=False)
    return place / "run"


@pytest.fixture
def run(made, tmp_path):
    copy = tmp_path / "run"
    copy.mkdir()
    for path in made.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, tmp_path, *arguments, names):
    """Exit code 2, one line on stderr with each of `names`, no file made or changed."""
    before = everything(tmp_path)
    assert nerfmac(*arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("nerfmac: ")
    for name in names:
        assert str(name) in line, f"{name!r} is not in: {line}"
    assert everything(tmp_path) == before


def train_refused(capsys, tmp_path, scene, *flags, names):
    out = tmp_path / "new" / "run"
    flags = (*FLAGS, *(flags or ("--steps", 1)))
    refused(capsys, tmp_path, "train", scene, *flags, "--out", out, names=names)
    assert not out.parent.exists()


def edit_transforms(scene, split, change):
    path = scene / f"transforms_{split}.json"
    values = json.loads(path.read_text())
    change(values["frames"])
    path.write_text(json.dumps(values))


def set_entry(row, column, value):
    def change(frames):
        frames[1]["transform_matrix"][row][column] = value

    return change


def test_a_folder_that_is_missing_or_empty(capsys, tmp_path):
    nowhere = tmp_path / "nowhere"
    train_refused(capsys, tmp_path, nowhere, names=[f"{nowhere} does not exist"])
    nowhere.mkdir()
    train_refused(capsys, tmp_path, nowhere, names=[f"{nowhere} is empty"])


def test_broken_json(capsys, tmp_path, scene):
    (scene / "transforms_train.json").write_text('{"frames": [')
    train_refused(capsys, tmp_path, scene, names=["transforms_train.json", "not valid JSON"])


@pytest.mark.parametrize(
    ("split", "value", "what"),
    [("train", math.nan, "finite"), ("train", 3.0, "not rigid"), ("test", 3.0, "not rigid")],
)
def test_a_camera_that_is_no_camera(capsys, tmp_path, scene, split, value, what):
    edit_transforms(scene, split, set_entry(0, 0, value))
    names = [f"transforms_{split}.json, frame 1 (./{split}/r_1)", what]
    train_refused(capsys, tmp_path, scene, names=names)


def test_pictures_of_several_sizes(capsys, tmp_path, scene):
    Image.fromarray(np.zeros((8, 8, 4), np.uint8)).save(scene / "train" / "r_2.png")
    train_refused(capsys, tmp_path, scene, names=["r_2.png is 8x8 pixels", "20x16"])


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_picture_cut_short(capsys, tmp_path, scene, split):
    path = scene / split / "r_1.png"
    path.write_bytes(path.read_bytes()[:-40])  # its header is whole
    train_refused(capsys, tmp_path, scene, names=[f"{split}/r_1"])


@pytest.mark.skipif(gpu() is not None, reason="needs a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_a_device_that_is_not_there(capsys, tmp_path, scene, device):
    names = [f"device is '{device}'", "finds only cpu"]
    out = tmp_path / "run"
    for verb in (("train", scene, "--out", out), ("info",), ("eval", out), ("render", out)):
        refused(capsys, tmp_path, *verb, "--device", device, names=names)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--steps", 0), ["steps is 0", "at least 1"]),
        (("--steps", -3), ["steps is -3"]),
        (("--seconds", -1), ["seconds is -1"]),
        (("--seconds", 0), ["seconds is 0"]),
        (("--seconds", "nan"), ["seconds is nan"]),
        (("--seconds", "inf"), ["seconds is inf"]),
        (("--steps", 5, "--seconds", 5), ["steps and seconds"]),
        (("--test-every", -1), ["test_every is -1"]),
        (("--test-every", 1), ["test_every=1 holds out every view"]),
    ],
)
def test_an_impossible_number(capsys, tmp_path, scene, flags, names):
    train_refused(capsys, tmp_path, scene, *flags, names=names)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("train", "--device", "warp"), ["--device", "warp", "metal"]),
        (("train", "--preset", "huge"), ["--preset", "huge", "tiny"]),
        (("train", "--preset"), ["--preset"]),
        (("train", "--colour", "red"), ["--colour"]),
        (("train", "--steps", "many"), ["--steps", "many"]),
        (("train", "--steps", "1.5"), ["--steps", "1.5"]),
        (("train", "--seed", -1), ["seed is -1"]),
        (("train", "--grid.levels", 0), ["grid.levels is 0", "2 and 32"]),
        (("train", "--train.slots", 7), ["train.slots is 7"]),
        (("train", "--networks.width", 17), ["networks.width is 17"]),
        (("train", "--optimiser.rate", "nan"), ["optimiser.rate is nan"]),
        (("eval",), ["RUN"]),
        (("eval", "run", "--split", "best"), ["--split", "best"]),
        (("render", "run", "--path", "zigzag"), ["--path", "zigzag", "orbit, test", "FILE.json"]),
        (("render", "run", "--path", "tour.json"), ["tour.json cannot be read"]),
        (("info", "--loud"), ["--loud"]),
    ],
)
def test_an_argument_that_does_not_exist(capsys, tmp_path, monkeypatch, arguments, names):
    monkeypatch.chdir(tmp_path)
    assert nerfmac(*arguments) == 2
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    for name in names:
        assert name in told.err, f"{name!r} is not in: {told.err}"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_verb(capsys, tmp_path):
    refused(capsys, tmp_path, "fly", names=["'fly'", "train, eval, render, info"])


def test_no_verb_shows_them_all(capsys):
    assert nerfmac() == 2
    assert nerfmac("--help") == 0
    told = capsys.readouterr().out
    for verb in ("train", "eval", "render", "info", "selftest", "bench"):
        assert told.count(f"\n  {verb} ") == 2


def test_a_run_folder_that_exists(capsys, tmp_path, scene, run):
    refused(capsys, tmp_path, "train", scene, *FLAGS, "--out", run, names=[run, "exists already"])
    file = tmp_path / "file"
    file.write_text("mine")
    refused(capsys, tmp_path, "train", scene, *FLAGS, "--out", file, names=[file, "exists already"])


def test_a_run_folder_that_cannot_be_made(capsys, tmp_path, scene):
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "run"
    refused(capsys, tmp_path, "train", scene, *FLAGS, "--out", out, names=[out, "cannot be made"])


def test_resuming_without_a_run(capsys, tmp_path, scene):
    out = tmp_path / "run"
    names = [f"{out} is not a run", "config.json"]
    refused(capsys, tmp_path, "train", scene, "--out", out, "--resume", names=names)
    refused(capsys, tmp_path, "train", scene, "--resume", names=["--resume needs --out"])


def test_resuming_with_another_configuration(capsys, tmp_path, run):
    for flags in (("--preset", "tiny"), ("--seed", 9), ("--grid.levels", 4)):
        names = ["--resume goes on with the run's own configuration"]
        refused(capsys, tmp_path, "train", "--out", run, "--resume", *flags, names=names)


def test_resuming_on_other_views(capsys, tmp_path, run):
    other = write_scene(tmp_path / "other", train=4)
    arguments = ("train", other, "--out", run, "--resume", "--steps", 4)
    refused(capsys, tmp_path, *arguments, names=[run, "from other views", "'other'"])


@pytest.mark.parametrize("verb", ["eval", "render", "resume"])
@pytest.mark.parametrize("left", [0, 7, 100, 5000, -1])
def test_a_checkpoint_cut_short(capsys, tmp_path, run, verb, left):
    path = run / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:left])
    arguments = ("train", "--resume", "--out", run) if verb == "resume" else (verb, run)
    refused(capsys, tmp_path, *arguments, names=[path, "cut short"])


def test_a_checkpoint_of_another_version(capsys, tmp_path, run):
    path = run / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes().replace(b"nerfmac checkpoint 2", b"nerfmac checkpoint 9"))
    refused(capsys, tmp_path, "eval", run, names=[path, "'nerfmac checkpoint 9'"])


def test_a_checkpoint_of_another_configuration(capsys, tmp_path, run):
    values = json.loads((run / "config.json").read_text())
    for part, key, value in (("grid", "log2_entries", 11), ("occupancy", "resolution", 64)):
        changed = {**values, part: {**values[part], key: value}}
        (run / "config.json").write_text(json.dumps(changed))
        names = [run / "checkpoint.safetensors", "has shape", "its configuration says"]
        refused(capsys, tmp_path, "eval", run, names=names)


def test_a_run_without_its_checkpoint(capsys, tmp_path, run):
    (run / "checkpoint.safetensors").unlink()
    refused(capsys, tmp_path, "eval", run, names=["checkpoint.safetensors does not exist"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", ["config.json", "not valid JSON"]),
        ("[]", ["config is []", "expected an object"]),
        ('{"girth": 3}', ["config.girth is unknown"]),
        ('{"grid": {"levels": "eight"}}', ["config.grid.levels is 'eight'"]),
        ('{"grid": {"levels": NaN}}', ["config.grid.levels is nan"]),
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


def test_a_scene_that_has_gone(capsys, tmp_path, run):
    record = json.loads((run / "scene.json").read_text())
    (run / "scene.json").write_text(json.dumps({**record, "path": str(tmp_path / "gone")}))
    refused(capsys, tmp_path, "eval", run, names=[tmp_path / "gone", "does not exist"])


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--frames", 0), ["frames is 0"]),
        (("--size", "big"), ["--size is 'big'", "WxH"]),
        (("--size", "0x16"), ["--size's width is 0"]),
        (("--fps", 0, "--frames", 1), ["fps is 0"]),
        (("--out", "movie.avi"), ["movie.avi is neither"]),
    ],
)
def test_a_video_that_cannot_be_made(capsys, tmp_path, run, flags, names):
    before = everything(tmp_path)
    assert nerfmac("render", run, *flags) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("nerfmac: ")
    for name in names:
        assert name in line
    assert everything(tmp_path) == before


def test_every_run_made_for_these_tests_is_whole(made):
    assert Config.from_json(json.loads((made / "config.json").read_text())) == override(
        CONFIG, train={"steps": 2}
    )
    assert Run.load(made).state.step == 2
