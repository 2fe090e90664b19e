"""Models are trained for their own time, and followed with the epochs that they have seen."""

import json
from itertools import count, pairwise

import pytest
from model_curves import (
    compare_models,
    evaluation_times,
)

from nerfmac import load_scene
from nerfmac.config import override
from tests.scene_factory import CONFIG, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")

CONFIGS = {"vanilla": override(CONFIG, train={"rays": 128}), "hash": CONFIG}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_scene(tmp_path_factory.mktemp("scene"), test=5))


def ticking(monkeypatch, seconds):
    """Advance the clock by `seconds` whenever it is read."""
    ticks = count()
    monkeypatch.setattr("time.perf_counter", lambda: seconds * next(ticks))


def test_each_model_trains_for_its_own_time(scene, monkeypatch):
    ticking(monkeypatch, 0.01)
    seconds = {"vanilla": 0.5, "hash": 2.0}
    comparison = compare_models(scene, CONFIGS, seconds=seconds, points=4)
    assert list(comparison.models) == ["vanilla", "hash"]
    for name, model in comparison.models.items():
        times = [point.seconds for point in model.points]
        # A report comes two or three steps after the moment, at most.
        assert times == pytest.approx(evaluation_times(seconds[name], 4), abs=0.06)
        assert times[-1] == pytest.approx(seconds[name], abs=0.05)
        for earlier, later in pairwise(model.points):
            assert later.step > earlier.step
            assert later.epochs > earlier.epochs
        assert all(5.0 < point.psnr < 60.0 for point in model.points)
    values = json.loads(json.dumps(comparison.to_json()))
    assert values["seconds"] == seconds
    assert len(values["models"]["hash"]["points"]) == 4
