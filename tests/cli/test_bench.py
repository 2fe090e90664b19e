"""What `nerfmac bench` says, writes and refuses."""

import json
import sys

import pytest

from nerfmac.bench import steps
from tests.scene_factory import nerfmac, write_scene


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
        (("--seconds", 0), ["seconds is 0"]),
        (("--plot", "a.png"), ["--plot", "--compare torch"]),
        (("--bandwidth", 100, "--rate", 3), ["--roofline"]),
        (("--roofline", "--bandwidth", 100), ["--rate is missing"]),
        (("--roofline", "--rate", 3), ["--bandwidth is missing"]),
        (("--roofline", "--bandwidth", 0, "--rate", 3), ["bandwidth is 0"]),
        (("--roofline", "--bandwidth", 100, "--rate", "nan"), ["rate is nan"]),
        (("--roofline", "--seconds", 3), ["--seconds"]),
        (("--roofline", "--compare", "torch"), ["--compare"]),
        (("--device", "cpu", "--scene", "nowhere"), ["nowhere does not exist"]),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, tmp_path, flags, names):
    refused(capsys, tmp_path, *flags, "--json", tmp_path / "b.json", names=names)


def test_a_file_that_cannot_be_written_is_refused_first(capsys, tmp_path):
    refused(capsys, tmp_path, "--json", tmp_path / "no" / "b.json", names=["cannot be written"])


def test_without_pytorch_the_message_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    names = ["pip install torch"]
    refused(capsys, tmp_path, "--device", "cpu", "--compare", "torch", names=names)


def test_a_chip_of_ones_own(capsys, tmp_path):
    def milliseconds(bandwidth, rate):
        path = tmp_path / "b.json"
        own = ("--roofline", "--bandwidth", bandwidth, "--rate", rate)
        assert nerfmac("bench", *own, "--json", path) == 0
        (only,) = json.loads(path.read_text())["estimated_not_measured"]
        return only["uncached_ms"]

    assert milliseconds(100, 4) == pytest.approx(2 * milliseconds(200, 8))
    said = capsys.readouterr().out
    assert "as given" in said
    assert "M4 Max" not in said
    assert nerfmac("bench", "--roofline") == 0
    assert "M4 Max" in capsys.readouterr().out


def test_everything_is_shown_and_written(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(steps.trained, "__defaults__", (20,))
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
    step = values["step"]
    total = sum(part["ms"]["median"] for part in step["parts"])
    assert step["sum_ms"] == pytest.approx(total)
    assert step["sum_from_step_percent"] == pytest.approx(100 * (total / step["ms"]["median"] - 1))
    assert values["frame"]["side"] == 200
    for name in (*values["operations"], *(part["part"] for part in step["parts"])):
        assert f"\n{name} " in said
    assert "a picture of 200x200" in said
    assert "from the step's" in said
