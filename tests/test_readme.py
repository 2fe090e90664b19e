"""The README's examples run as they stand, but for the time they take."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


pytestmark = pytest.mark.usefixtures("on_the_cpu")


def run_example(containing, tmp_path, monkeypatch):
    """Run the one example that contains these words, in seconds, and return its names."""
    (text,) = (each for each in EXAMPLES if containing in each)
    quick, count = re.subn(r"seconds=\d+", 'steps=40, preset="tiny"', text)
    assert count == 1
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(quick, names)
    return names, text


def test_the_field_of_ones_own_is_short_and_learns(tmp_path, monkeypatch):
    names, text = run_example("class Ball", tmp_path, monkeypatch)
    assert len(text.splitlines()) <= 30
    parameters = names["run"].state.parameters
    assert not np.allclose(np.array(parameters["colour"]), 0.0)
    assert names["picture"].opacity.max() > 0.5


def test_the_example_of_a_run_writes_what_it_says(tmp_path, monkeypatch):
    names, _ = run_example("run.evaluate", tmp_path, monkeypatch)
    assert sorted(os.listdir(tmp_path)) == ["runs", "view.png"]
    assert names["run"].state.step == 40
