"""`nerfmac profile`: output, files, and errors."""

import json

import pytest

from tests.scene_factory import nerfmac

QUICK = ("--device", "cpu", "--seconds", 0.01)


@pytest.fixture(scope="module")
def done(made, tmp_path_factory):
    """Return the folder with all outputs for 20 steps of a run, and the printed text."""
    place = tmp_path_factory.mktemp("profile")
    files = {"--json": "p.json", "--trace": "t.json"}
    flags = [word for flag, name in files.items() for word in (flag, place / name)]
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))
        assert nerfmac("profile", made, *QUICK, "--warmup", 14, "--steps", 20, *flags) == 0
    return place, "\n".join(said)


def test_the_parts_are_shown_and_written_and_their_sum_set_against_the_step(done):
    place, said = done
    values = json.loads((place / "p.json").read_text(), parse_constant=pytest.fail)
    assert values["device"] == "cpu"
    assert values["ceilings"]["bandwidth"] > 0
    step = values["step"]
    total = sum(part["ms"]["median"] for part in step["parts"])
    assert step["sum_ms"] == pytest.approx(total)
    assert step["ms"]["median"] == pytest.approx(total)
    assert sum(step["stages_ms"].values()) == pytest.approx(total)
    for part in step["parts"]:
        assert f"\n{part['part']} " in said or f"\n  {part['part']} " in said
    assert values["references"] == {}
    host = values["host"]
    assert host["steps"] == 19  # the last one's end is not seen
    assert 0 < host["work_ms"]["median"] < host["step_ms"]["median"]


def test_the_timeline_contains_the_steps(done):
    events = json.loads((done[0] / "t.json").read_text())["traceEvents"]
    spans = [each for each in events if each["ph"] == "X"]
    steps = [each["args"]["step"] for each in spans if each["name"] == "step"]
    assert steps == [*range(16, 36)]
    parts = {"occupancy update", "report", "wait for the device"}
    assert parts <= {each["name"] for each in spans}
