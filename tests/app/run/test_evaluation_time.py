"""The evaluation after training takes no longer than the training, or a minute."""

import json

import pytest

from nerfmac import Goal, load_scene, resume, train
from nerfmac.app.run import outputs
from tests.scene_factory import CONFIG, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture
def scene(tmp_path):
    return load_scene(write_scene(tmp_path / "balls", test=10, train=4))


@pytest.mark.parametrize(
    ("per_view", "views"), [(0.1, 10), (5.9, 10), (12.0, 5), (60.0, 1), (1620.0, 1)]
)
def test_fewer_views_are_measured_if_all_would_take_longer_than_a_minute(
    scene, tmp_path, monkeypatch, caplog, per_view, views
):
    caplog.set_level("INFO", "nerfmac")
    monkeypatch.setattr(outputs, "seconds_to_measure", lambda _run, number: number * per_view)
    run = train(scene, CONFIG, Goal(steps=3), out=tmp_path / "run", progress=False)
    told = json.loads((tmp_path / "run/metrics.json").read_text())
    assert told["test_views"] == views
    assert told["test_views_in_scene"] == 10
    shown = f"{views} of 10" if views < 10 else "10"
    assert any(line.startswith(f"evaluating {shown} test views") for line in caplog.messages)
    # The same views again, also by a machine that is then slower.
    monkeypatch.setattr(outputs, "seconds_to_measure", lambda _run, number: number * 1e4)
    resume(tmp_path / "run", Goal(steps=6), scene=run.images(), progress=False)
    assert json.loads((tmp_path / "run/metrics.json").read_text())["test_views"] == views
