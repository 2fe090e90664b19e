"""`nerfmac bench`: output, files, and errors."""

import json

import pytest

from nerfmac.app.cli import machine
from nerfmac.app.measure import benchmark, models
from nerfmac.app.scenes import builtin_scene_path
from nerfmac.config import override
from tests.app.cli.refusals import refused
from tests.scene_factory import CONFIG, nerfmac, write_scene

SCENE = builtin_scene_path()


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--seconds", 0), ["seconds", "0"]),
        (("--plot", "a.png"), ["--plot", "--models"]),
        (("--device", "cpu", "--scene", "nowhere"), ["nowhere"]),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, tmp_path, flags, names):
    flags = ("bench", *flags, "--json", tmp_path / "b.json")
    refused(capsys, tmp_path, *flags, names=names)


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


def test_everything_is_shown_and_written(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "STEPS", 20)
    monkeypatch.setattr(machine, "preset", lambda *_: override(CONFIG, preset="tiny"))
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
    assert "an image of 200x200" in said
