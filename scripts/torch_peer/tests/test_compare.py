"""nerfmac and its peer are compared on the same terms, and the outcome can be read."""

import itertools
import json
import sys

import numpy as np
import pytest
from model_curves import HeldOutViews, evaluation_times
from scene_factory import CONFIG, write_scene
from torch_peer.compare import Comparison, Point, Result, _train, compare
from torch_peer.implementations import Window

from nerfmac.app.measure.timing import Timing
from nerfmac.app.scenes import load_scene
from nerfmac.backend import choose_device
from nerfmac.common import InputError, write_json


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_scene(tmp_path_factory.mktemp("scene")))


def made_up() -> Comparison:
    def result(name, slower, psnrs):
        timings = [Timing(slower * t, slower * t * 0.9, slower * t * 1.2, 30) for t in (10, 20, 1)]
        curve = tuple(
            Point(t, int(100 * t / slower), p) for t, p in zip((1, 4, 9), psnrs, strict=True)
        )
        return Result(name, timings[0], 1e6 / slower, timings[1], timings[2], curve, 2.0)

    about = {"machine": "a Mac", "scene": "garden", "preset": "small", "note": "", "batch": 4096}
    return Comparison(
        about, result("nerfmac", 1.0, (20, 25, 28.5)), result("torch", 2.5, (18, 22, 26))
    )


def test_the_table_has_both_results_and_how_many_times_faster_nerfmac_is():
    about, heading, step, batch, ray, samples, *points = made_up().lines()
    assert "a Mac" in about
    assert "note" not in about
    assert heading.split() == ["nerfmac", "torch", "ratio"]
    for line, name in ((step, "training step"), (batch, "4096 rays"), (ray, "1 ray")):
        assert line.startswith(name)
        assert line.endswith("2.50x")
    assert "10.00 ms" in step
    assert "(9.00 to 12.00)" in step
    assert "1000 k/s" in samples
    assert samples.endswith("2.50x")
    assert [line.split()[-2] for line in points] == ["+2.00", "+3.00", "+2.50"]


def test_the_figures_survive_json(tmp_path):
    comparison = made_up()
    write_json(tmp_path / "c.json", comparison.to_json())
    read = json.loads((tmp_path / "c.json").read_text())
    assert read["machine"] == "a Mac"
    assert read["torch"]["step_ms"] == {"median": 25.0, "low": 22.5, "high": 30.0, "calls": 30}
    assert read["nerfmac"]["curve"][2] == {"seconds": 9, "step": 900, "psnr": 28.5}


def test_the_curves_are_named_and_have_every_point():
    assert made_up().curves() == {
        "nerfmac, 10 ms a step": [(1, 20), (4, 25), (9, 28.5)],
        "torch, 25 ms a step": [(1, 18), (4, 22), (9, 26)],
    }


def test_without_pytorch_the_message_says_what_to_install(scene, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="pip install torch"):
        compare(scene, CONFIG, seconds=1.0)


def test_a_scene_without_test_views_is_refused(tmp_path):
    with pytest.raises(InputError, match="no 'test' views"):
        compare(load_scene(write_scene(tmp_path, test=0)), CONFIG, seconds=1.0)


@pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"points": 0}, {"test_views": 0.5}])
def test_numbers_out_of_range_are_refused(scene, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        compare(scene, CONFIG, **wrong)


def test_both_train_for_the_same_time_and_are_evaluated_equally_often(scene, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed; `pip install torch`")
    # So little work gains nothing from more cores, and PyTorch's wait long on a busy machine.
    monkeypatch.setattr("torch_peer.peer.processors", lambda: 1)
    ticks = itertools.count()  # a hundredth of a second whenever the clock is read
    monkeypatch.setattr("time.perf_counter", lambda: 0.01 * next(ticks))
    outcome = compare(scene, CONFIG, seconds=3.0, points=3, test_views=2, compiled=False)
    for result in (outcome.nerfmac, outcome.torch):
        times = [point.seconds for point in result.curve]
        # Both are evaluated only between two windows, and windows are some steps long.
        assert times == pytest.approx(evaluation_times(3.0, 3), abs=0.5)
        assert times[-1] >= 3.0
        assert result.curve[-1].step > result.curve[0].step > 0
        assert all(0.0 < point.psnr < 60.0 for point in result.curve)
        assert result.samples_per_second > 0
        for timing in (result.step, result.batch, result.ray):
            assert 0.0 < timing.low <= timing.median <= timing.high
    assert outcome.about["batch"] == 20 * 16
    assert len(list(outcome.lines())) == 6 + 3
    json.dumps(outcome.to_json())


def test_the_two_alternate_whenever_one_has_trained_for_a_second(scene):
    class Toy:
        step = 0

        def __init__(self, name, window):
            self.name, self.window, self.seconds = name, window, 0.0

        def train(self):
            order.append(self.name)
            self.step, self.seconds = self.step + 1, self.seconds + self.window
            return Window(1, self.window, 1.0)

        def render(self, camera):
            return np.zeros((camera.lens.height, camera.lens.width, 3), np.float32)

    order = []
    views = HeldOutViews(scene, 1, "srgb")
    windows, curves = _train((Toy("a", 0.5), Toy("b", 0.25)), [1.0, 2.0], views)
    assert order == 2 * ["a", "a", "b", "b", "b", "b"]
    assert {name: len(later) for name, later in windows.items()} == {"a": 2, "b": 4}
    assert [point.seconds for point in curves["a"]] == [1.0, 2.0]
    assert [point.step for point in curves["b"]] == [4, 8]
