"""nerfmac and its peer are compared on the same terms, and the outcome can be read."""

import json
import sys

import numpy as np
import pytest
from PIL import Image
from scene_factory import CONFIG, write_scene
from torch_peer.compare import Comparison, Point, Side, compare

from nerfmac.backend import choose_device
from nerfmac.bench.plot import COLOURS, plot
from nerfmac.bench.timing import Timing
from nerfmac.checks import InputError
from nerfmac.files import write_json
from nerfmac.scenes import load_scene


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_scene(tmp_path_factory.mktemp("scene")))


def made_up() -> Comparison:
    def side(name, slower, psnrs):
        timings = [Timing(slower * t, slower * t * 0.9, slower * t * 1.2, 30) for t in (10, 20, 1)]
        curve = tuple(
            Point(t, int(100 * t / slower), p) for t, p in zip((1, 4, 9), psnrs, strict=True)
        )
        return Side(name, timings[0], 1e6 / slower, timings[1], timings[2], curve, 2.0)

    about = {"machine": "a Mac", "scene": "garden", "preset": "small", "note": "", "batch": 4096}
    return Comparison(about, side("nerfmac", 1.0, (20, 25, 28.5)), side("torch", 2.5, (18, 22, 26)))


def test_the_table_tells_both_sides_and_how_many_times_faster_nerfmac_is():
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


def test_the_plot_has_both_curves_the_better_one_above(tmp_path):
    plot(tmp_path / "plot.png", made_up())
    with Image.open(tmp_path / "plot.png") as picture:
        pixels = np.array(picture.convert("RGB"))
    # left of the legend
    rows = [np.nonzero((pixels[:, :650] == colour).all(axis=2))[0] for colour in COLOURS]
    assert min(map(len, rows)) > 300
    assert rows[0].mean() + 30 < rows[1].mean()


@pytest.mark.parametrize("psnrs", [(20.0, 20.0, 20.0), (-3.0, 0.0, 99.0)])
def test_a_flat_curve_and_a_steep_one_are_drawn_too(tmp_path, psnrs):
    comparison = made_up()
    points = tuple(Point(t, 1, p) for t, p in zip((0.1, 0.2, 0.3), psnrs, strict=True))
    for side in (comparison.nerfmac, comparison.torch):
        object.__setattr__(side, "curve", points)
    plot(tmp_path / "plot.png", comparison)
    assert (tmp_path / "plot.png").stat().st_size > 1000


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


def test_both_train_for_the_same_time_and_are_looked_at_equally_often(scene, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed; `pip install torch`")
    # So little work gains nothing from more cores, and PyTorch's wait long on a busy machine.
    monkeypatch.setattr("torch_peer.peer.processors", lambda: 1)
    outcome = compare(scene, CONFIG, seconds=3.0, points=3, test_views=2, compiled=False)
    for side in (outcome.nerfmac, outcome.torch):
        assert [point.seconds for point in side.curve] == sorted(p.seconds for p in side.curve)
        assert len(side.curve) == 3
        assert side.curve[-1].seconds >= 3.0
        assert side.curve[-1].step > side.curve[0].step > 0
        assert all(0.0 < point.psnr < 60.0 for point in side.curve)
        assert side.samples_per_second > 0
        for timing in (side.step, side.batch, side.ray):
            assert 0.0 < timing.low <= timing.median <= timing.high
    assert outcome.about["batch"] == 20 * 16
    assert len(list(outcome.lines())) == 6 + 3
    json.dumps(outcome.to_json())
