"""`nerfmac tune` and `nerfmac bench`: output, files, and errors."""

import json
import re

import pytest

from nerfmac.app.cli import info, machine
from nerfmac.app.measure import benchmark, tuning as choosing
from nerfmac.app.measure.tuning import Tried, Tuned
from nerfmac.app.scenes import builtin_scene_path
from nerfmac.backend import choose_device, variants
from nerfmac.config import PRESETS, override
from tests.app.cli.refusals import refused
from tests.scene_factory import CONFIG, nerfmac, write_scene


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    choose_device("cpu")
    monkeypatch.delenv("NERFMAC_VARIANTS", raising=False)
    monkeypatch.setattr(variants, "cache_folder", lambda: tmp_path / "kept")
    variants._stored.cache_clear()
    yield
    variants._stored.cache_clear()


@pytest.fixture
def sizes(monkeypatch):
    """Record the configuration and the extent to be tuned, without measuring."""
    asked = []

    def try_variants(config, extent=1.0, *, seconds):
        asked.append((config, extent, seconds))
        timing = choosing.quartiles([0.002, 0.004, 0.003])
        tried = [Tried("four", timing, 1.0, at_most=1.0), Tried("two", timing, 0.5, at_most=0.6)]
        yield Tuned("march_count", "two", [*tried, Tried("eight", fault="differs: counts")])

    monkeypatch.setattr(choosing, "try_variants", try_variants)
    return asked


def test_the_table_names_the_quickest_and_it_is_kept_and_shown(
    sizes, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "tune.json"
    assert nerfmac("tune", "--device", "cpu", "--preset", "tiny", "--json", file) == 0
    said = capsys.readouterr().out.splitlines()
    (two,) = (line for line in said if " two " in line)
    assert two.startswith("  * two")
    for figure in ("3.000 ms", "0.50 of", "0.60"):
        assert figure in two
    assert any(line.startswith("    four ") for line in said)
    assert any("eight" in line and "differs: counts" in line for line in said)
    (kept,) = (tmp_path / "kept").iterdir()
    assert said[-1].endswith(str(kept))
    values = json.loads(file.read_text())
    assert values["preset"] == "tiny"
    assert values["variants"]["march_count"]["chosen"] == "two"
    assert values["variants"]["march_count"]["tried"]["four"]["ms"]["median"] == 3.0
    monkeypatch.setattr(info, "preset", lambda *_: PRESETS["tiny"])
    assert nerfmac("info", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    assert "variants for preset tiny (chosen by `nerfmac tune`)" in shown
    assert re.search(r"march_count +two \(others: four, eight\)", shown)
    monkeypatch.setattr(info, "preset", lambda *_: PRESETS["small"])
    assert nerfmac("info", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    assert "variants for preset small (defaults; run `nerfmac tune` to choose)" in shown
    assert re.search(r"march_count +four \(others: two, eight\)", shown)


def test_a_scene_decides_the_sizes(sizes, balls, capsys):
    assert nerfmac("tune", balls, "--device", "cpu", "--preset", "tiny", "--seconds", "0.1") == 0
    assert nerfmac("tune", "--device", "cpu", "--preset", "tiny") == 0
    (own, extent, seconds), (plain, one, _) = sizes
    assert own.grid.finest != plain.grid.finest
    assert (extent, one, seconds) == (1.0, 1.0, 0.1)


def test_the_variable_is_said_to_go_before_it(sizes, monkeypatch, capsys):
    monkeypatch.setenv("NERFMAC_VARIANTS", "march_count=eight")
    assert nerfmac("tune", "--device", "cpu", "--preset", "tiny") == 0
    assert re.search("NERFMAC_VARIANTS.*march_count=eight", capsys.readouterr().out)
    assert nerfmac("info", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    assert "NERFMAC_VARIANTS" in shown
    assert re.search(r"march_count +eight \(", shown)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "nowhere"),
        (("--seconds", "0"), "seconds"),
        (("--json", "absent/tune.json"), "absent/tune.json"),
    ],
)
def test_what_cannot_be_done_is_refused(words, told, sizes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refused(capsys, tmp_path, "tune", *words, names=[told])
    assert not sizes


SCENE = builtin_scene_path()


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--seconds", 0), ["seconds", "0"]),
        (("--device", "cpu", "--scene", "nowhere"), ["nowhere"]),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, tmp_path, flags, names):
    flags = ("bench", *flags, "--json", tmp_path / "b.json")
    refused(capsys, tmp_path, *flags, names=names)


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
