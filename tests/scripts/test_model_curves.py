"""Models are trained for their own time, and followed with the epochs that they have seen."""

import json
from itertools import count, pairwise

import numpy as np
import pytest
from model_curves import (
    HeldOutViews,
    ModelComparison,
    ModelCurve,
    ModelPoint,
    compare_models,
    evaluation_times,
    every_nth_pixel,
    plot_models,
    training_pixels,
)

from nerfmac import Camera, Lens, Trainer, load_scene
from nerfmac.config import override
from nerfmac.geometry.rays import camera_rays
from tests.scene_factory import CONFIG, HEIGHT, WIDTH, write_scene

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


def photos(scene):
    views = scene.views("test")
    return [np.array(views.blended(index)) for index in range(len(views.names))]


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_every_nth_pixel_looks_along_that_pixel_s_ray(step):
    lens = Lens(20, 15, 22.0, 24.0, 9.0, 8.5, 0.1, -0.05)
    camera = Camera.look_at((2.0, 0.3, 0.4), (0.5, 0.5, 0.5), (0.1, 0.2, 1.0), lens)
    fewer = every_nth_pixel(camera, step)
    every = np.array(camera_rays(camera).direction).reshape(15, 20, 3)
    every = every[step // 2 :: step, step // 2 :: step]
    assert every.shape[:2] == (fewer.lens.height, fewer.lens.width)
    got = np.array(camera_rays(fewer).direction).reshape(every.shape)
    np.testing.assert_allclose(got, every, atol=2e-6)


def test_the_psnr_is_that_of_the_views_chosen(scene):
    views, truth = HeldOutViews(scene, 3, "srgb"), photos(scene)
    assert views.names == [scene.views("test").names[index] for index in (0, 2, 4)]
    remaining = iter((0, 2, 4))
    # An error of a tenth everywhere is 20 dB.
    assert views.psnr(lambda _: truth[next(remaining)] + np.float32(0.1)) == pytest.approx(20.0)
