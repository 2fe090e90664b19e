"""The README's examples run as they stand, but for a small scene and the time they take."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import nerfmac

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture
def run_example(balls, tmp_path, monkeypatch):
    """Run the one example that contains some words in `tmp_path`; return its names and text."""
    monkeypatch.setattr(nerfmac, "builtin_scene_path", lambda: balls)
    monkeypatch.chdir(tmp_path)

    def run_one(containing):
        (text,) = (each for each in EXAMPLES if containing in each)
        quick, count = re.subn(r"seconds=\d+", 'steps=40, preset="tiny"', text)
        assert count == 1
        names = {}
        exec(quick, names)
        return names, text

    return run_one


def test_every_public_name_is_told_of():
    told = set(re.findall(r"\w+", " ".join(re.findall(r"```.*?```|`[^`]+`", README, re.DOTALL))))
    assert set(nerfmac.__all__) - told == set()


def test_the_field_of_ones_own_is_short_and_learns(run_example):
    names, text = run_example("class Ball")
    assert len(text.splitlines()) <= 30
    trained = names["run"]
    method = nerfmac.Method(field=names["Ball"]())
    untrained = nerfmac.Run.begin(names["scene"], trained.config, method=method, progress=False)
    after, before = (
        np.mean([view.psnr for view in run.evaluate("test")]) for run in (trained, untrained)
    )
    assert after > before + 0.5
    assert names["picture"].opacity.max() > 0.5


def test_the_example_of_a_run_writes_what_it_says(run_example, tmp_path):
    names, _ = run_example("run.evaluate")
    assert sorted(os.listdir(tmp_path)) == ["runs", "view.png"]
    assert names["run"].state.step == 40


def test_the_reading_order_names_files_that_there_are_with_their_lines():
    root = Path(__file__).resolve().parents[1]
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d \| `(\w+)/` ([\w, ]+) \|.*\| (\d+) \|$", text, re.MULTILINE)
    assert len(rows) == 8
    total = files = 0
    for room, names, said in rows:
        paths = [root / "nerfmac" / room / f"{name}.py" for name in names.split(", ")]
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        assert lines == pytest.approx(int(said), rel=0.1), room
        total, files = total + lines, files + len(paths)
    (told,) = re.findall(r"(\d+) files of about ([\d,]+) lines hold the whole method", README)
    assert int(told[0]) == files
    assert int(told[1].replace(",", "")) == pytest.approx(total, rel=0.05)
