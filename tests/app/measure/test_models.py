"""Models are trained for their own time, and followed with the epochs that they have seen."""

import json
from itertools import count, pairwise

import pytest

from nerfmac.app.measure.models import (
    ModelComparison,
    ModelCurve,
    ModelPoint,
    compare_models,
    evaluation_times,
    plot_models,
    training_pixels,
)
from nerfmac.app.scenes import load_scene
from nerfmac.config import override
from nerfmac.config.presets import preset
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, HEIGHT, WIDTH, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")

CONFIGS = {"vanilla": override(CONFIG, train={"rays": 128}), "hash": CONFIG}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_scene(tmp_path_factory.mktemp("scene")))


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


def test_vanilla_is_evaluated_close_to_its_moments(scene, monkeypatch):
    # By itself it reports every sixteenth step, and here it trains for fewer than twenty.
    ticking(monkeypatch, 0.05)
    config = preset("tiny", "cpu", 0, model="vanilla")
    config = override(config, vanilla={"width": 16, "layers": 2, "skip": 0}, train={"rays": 32})
    (model,) = compare_models(scene, {"vanilla": config}, seconds=1.0, points=4).models.values()
    times = [point.seconds for point in model.points]
    assert times == pytest.approx(evaluation_times(1.0, 4), abs=0.15)


def test_an_epoch_is_as_many_rays_as_there_are_training_pixels(scene, monkeypatch):
    ticking(monkeypatch, 0.01)
    rays, advance = [], Trainer.advance

    def counted(trainer, state, rate, *progress):
        rays.append(state.rays if rate else 0)  # compiling takes a step at the rate 0
        return advance(trainer, state, rate, *progress)

    monkeypatch.setattr(Trainer, "advance", counted)
    assert training_pixels(scene) == 8 * WIDTH * HEIGHT
    (model,) = compare_models(scene, {"hash": CONFIG}, seconds=2.0, points=3).models.values()
    assert len(set(rays)) > 2, "the number of rays never changed"
    assert model.points[-1].epochs == pytest.approx(sum(rays) / training_pixels(scene))


def test_the_table_and_the_plot_have_every_model(tmp_path):
    def curve(psnr):
        points = [ModelPoint(t, int(10 * t), t / 3, psnr + t) for t in (1.0, 2.0, 4.0)]
        return ModelCurve(points, 1.0)

    about = {"scene": "a garden", "preset": "tiny", "device_name": "a Mac", "training_pixels": 9}
    comparison = ModelComparison(about, {"vanilla": curve(10.0), "hash": curve(20.0)})
    first, heading, *rows = comparison.lines()
    assert "a garden" in first
    assert "9 rays" in first
    assert heading.split() == ["model", "seconds", "steps", "epochs", "PSNR"]
    assert [row.split() for row in rows[::3]] == [
        ["vanilla", "1.00", "10", "0.333", "11.00", "dB"],
        ["hash", "1.00", "10", "0.333", "21.00", "dB"],
    ]
    assert len(rows) == 6
    plot_models(tmp_path / "models.png", comparison)
    assert (tmp_path / "models.png").read_bytes().startswith(b"\x89PNG")
