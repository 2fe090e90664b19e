"""What `nerfmac bench` says, writes and refuses."""

import json

import pytest

from nerfmac.app.cli import bench
from nerfmac.app.measure.bench import benchmark, models
from nerfmac.app.measure.bench.roofline import CHIPS
from nerfmac.app.run import Run
from nerfmac.app.scenes import builtin_scene_path
from nerfmac.config import override
from nerfmac.training.measured import DivergedError
from tests.scene_factory import CONFIG, nerfmac, write_scene

SCENE = builtin_scene_path()


def refused(capsys, tmp_path, *arguments, names):
    """Exit code 2 and one line before anything is measured; no file."""
    before = sorted(tmp_path.rglob("*"))
    assert nerfmac("bench", *arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    for name in names:
        assert name in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--seconds", 0), ["seconds", "0"]),
        (("--plot", "a.png"), ["--plot", "--models"]),
        (("--roofline", "--seconds", 3), ["--seconds"]),
        (("--scaling", 0), ["scaling", "0"]),
        (("--ranks.allreduce_dtype", "float32"), ["--ranks", "--scaling"]),
        (("--device", "cpu", "--scene", "nowhere"), ["nowhere"]),
        (("--table",), ["scenes are []", "at least one"]),
        (("--table", "nowhere", "--seeds", 0), ["seeds is 0"]),
        (("--table", f"{SCENE}:downscal=2"), ["downscal", "downscale"]),
        (("--table", f"{SCENE}:split=none"), ["still_life", "test"]),
        (("--table", SCENE, SCENE), ["still_life", "name="]),
        (("--table", SCENE, "--lpips", "nowhere.npz"), ["nowhere.npz"]),
        ((SCENE,), ["SCENE", "--table"]),
        (("--latex", "a.tex"), ["--latex", "--table"]),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, tmp_path, flags, names):
    refused(capsys, tmp_path, *flags, "--json", tmp_path / "b.json", names=names)


def test_a_file_that_cannot_be_written_is_refused_first(capsys, tmp_path):
    refused(capsys, tmp_path, "--json", tmp_path / "no" / "b.json", names=["b.json"])


def test_the_roofline_is_of_apples_chips(capsys, tmp_path):
    path = tmp_path / "b.json"
    assert nerfmac("bench", "--roofline", "--json", path) == 0
    estimated = json.loads(path.read_text())["estimated_not_measured"]
    assert len({estimate["uncached_ms"] for estimate in estimated}) == len(CHIPS)
    assert "M4 Max" in capsys.readouterr().out


@pytest.fixture
def small_models(monkeypatch):
    """Models as small as the scene of the tests, whatever the preset."""

    def preset(_name, _device, _memory_bytes, *, model):
        return override(CONFIG, train={"rays": {"vanilla": 128, "hash": 64}[model]})

    monkeypatch.setattr(models, "preset", preset)


def test_models_are_shown_plotted_and_written(capsys, tmp_path, small_models):
    files = ("--json", tmp_path / "m.json", "--plot", tmp_path / "m.png")
    flags = ("--models", "--device", "cpu", "--seconds", 0.2, "--vanilla-seconds", 0.4)
    assert nerfmac("bench", *flags, "--scene", write_scene(tmp_path / "balls"), *files) == 0
    values = json.loads((tmp_path / "m.json").read_text())
    assert values["seconds"] == {"vanilla": 0.4, "hash": 0.2}
    assert values["training_pixels"] == 8 * 20 * 16
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    told = capsys.readouterr()
    for name, model in values["models"].items():
        assert model["points"][-1]["seconds"] >= values["seconds"][name]
        assert f"\n{name} " in told.out
        assert f"training {name}" in told.err


def test_a_model_that_diverges_ends_the_comparison_with_one_line(
    capsys, tmp_path, monkeypatch, small_models
):
    def diverging(*_):
        raise DivergedError("the loss is nan at step 7")
        yield

    monkeypatch.setattr(Run, "fit", diverging)
    scene, path = write_scene(tmp_path / "balls"), tmp_path / "m.json"
    flags = ("--models", "--device", "cpu", "--scene", scene, "--json", path)
    assert nerfmac("bench", *flags) == 2
    assert "the loss is nan at step 7" in capsys.readouterr().err
    assert not path.exists()


def test_everything_is_shown_and_written(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "STEPS", 20)
    monkeypatch.setattr(bench, "preset", lambda *_: override(CONFIG, preset="tiny"))
    scene, path = write_scene(tmp_path / "balls"), tmp_path / "b.json"
    flags = ("--preset", "tiny", "--device", "cpu", "--seconds", 0.01)
    assert nerfmac("bench", *flags, "--scene", scene, "--json", path) == 0
    said = capsys.readouterr().out
    values = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))
    assert values["device"] == "cpu"
    assert values["preset"] == "tiny"
    versions = {f"{name}_version" for name in ("mlx", "nerfmac", "python")}
    assert {"device_name", "system", *versions} <= set(values)
    assert values["ceilings"]["bandwidth"] > 0
    assert values["ceilings"]["rate"] > 0
    forward = values["operations"]["hash_encode forward"]
    assert forward["ratio"] == pytest.approx(
        forward["reference_ms"]["median"] / forward["kernel_ms"]["median"]
    )
    assert values["frame"]["side"] == 200
    for name in values["operations"]:
        assert f"\n{name} " in said
    assert "a picture of 200x200" in said


def test_a_papers_table_is_printed_and_written(capsys, tmp_path):
    scenes = [write_scene(tmp_path / "balls"), f"{tmp_path / 'balls'}:name=a_few,max_images=3"]
    files = ("--json", tmp_path / "t.json", "--latex", tmp_path / "t.tex")
    flags = ("--preset", "tiny", "--device", "cpu", "--steps", 4, "--background", "black")
    assert nerfmac("bench", "--table", *scenes, *flags, "--seeds", 2, *files) == 0
    told = capsys.readouterr()
    values = json.loads((tmp_path / "t.json").read_text())
    assert {name: [run["seed"] for run in runs] for name, runs in values["runs"].items()} == {
        "balls": [0, 1],
        "a_few": [0, 1],
    }
    for name, views in (("balls", 8), ("a_few", 3)):
        first, second = values["runs"][name]
        assert first["psnr"] != second["psnr"]
        assert (first["steps"], first["test_views"]) == (4, 2)
        assert first["protocol"]["train_views"] == views
        assert first["protocol"]["background"] == "black"
        mean = (first["psnr"] + second["psnr"]) / 2
        assert f"\n| {name} | {mean:.2f} ± " in told.out
        assert f"{name}, seed 1: {second['psnr']:.2f} dB\n" in told.err
    assert "read with max_images=3" in told.out
    assert r"a\_few & " in (tmp_path / "t.tex").read_text()
