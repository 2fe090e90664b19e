"""The sensor loss moves density to the depth that a sensor has measured, and the occupancy grid
starts from this depth."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Goal, load_scene
from nerfmac.common.constants import EMPTY_IN_WARMUP
from nerfmac.config import override
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.march import cell_of
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.rendering.evaluation import evaluate
from nerfmac.training.resolve import SENSOR_WEIGHT, SceneFacts, resolve
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import LENS, box_views, map_of
from tests.scene_factory import CONFIG, initial, trainer_of
from tests.training.test_ground_loss import samples_at

pytestmark = pytest.mark.usefixtures("on_the_cpu")

MEASURED = 2.0  # distance that the sensor has measured


def loss_of(distances: list[float], density: mx.array, confidence: float = 1.0) -> mx.array:
    samples, weights = samples_at(distances), PenaltyWeights(sensor=1.0)
    known = mx.array([[MEASURED, confidence]])
    given = penalties(samples, mx.array(0.0), weights, sensor=known)
    color = mx.zeros((len(distances), 3))
    return composite_penalized(density, color, samples, given.sample)[1] + given.ray


@pytest.mark.parametrize(
    ("distance", "want"), [(2.0, 0.0), (1.9, 0.5), (2.05, 0.25), (2.4, 1.0), (0.5, 1.0)]
)
def test_it_is_the_relative_distance_from_the_measurement_up_to_its_reach(distance, want):
    got = loss_of([distance], mx.array([1e4]))
    assert float(got[0]) == pytest.approx(want, abs=1e-5)
    assert float(loss_of([distance], mx.array([1e4]), 0.3)[0]) == pytest.approx(
        0.3 * want, abs=1e-5
    )


def test_its_gradient_moves_density_to_the_measurement():
    slope = mx.grad(lambda density: loss_of([0.5, 1.7, 1.95, 2.0, 2.3], density).sum())(
        mx.full((5,), 3.0)
    )
    assert slope[3] < 0.0 < slope[1]
    assert slope[0] > 0.0 <= slope[4]
    unknown = mx.grad(lambda density: loss_of([1.0, 2.0], density, 0.0).sum())(mx.ones(2))
    assert (unknown == 0.0).all()


def test_a_transparent_ray_has_the_loss_of_a_wrong_depth():
    assert float(loss_of([2.0], mx.array([0.0]))[0]) == 1.0
    half = float(mx.log(mx.array(2.0))) / 0.01
    assert float(loss_of([2.0], mx.array([half]))[0]) == pytest.approx(0.5, abs=1e-5)


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    folder = depth_scenes.polycam(tmp_path_factory.mktemp("box"), box_views(24), LENS)
    return load_scene(folder, split=6)


def test_by_default_it_is_enabled_if_the_views_have_depth(box, scene):
    def weight(config, scene):
        return resolve(config, SceneFacts(scene.bounds), scene.views("train")).train.sensor

    assert weight(CONFIG, box) == SENSOR_WEIGHT
    assert weight(CONFIG, scene) == weight(override(CONFIG, train={"sensor": 0.0}), box) == 0.0


def test_a_step_counts_it_by_its_weight_if_the_views_have_depth(box):
    losses = {}
    for has_depth in (True, False):
        views = box.views("train")
        views = views if has_depth else replace(views, depth=None)
        for weight in (0.0, 1.0, 2.0):
            trainer = trainer_of(override(CONFIG, train={"sensor": weight}), box.bounds, views)
            state = initial(trainer)
            state = replace(state, sampling=initial(trainer_of(CONFIG, box.bounds, views)).sampling)
            losses[has_depth, weight] = float(trainer.advance(state, factor=1 / 3)[1].measured[0])
    assert losses[True, 1.0] - losses[True, 0.0] > 0.1
    assert losses[True, 2.0] - losses[True, 1.0] == pytest.approx(
        losses[True, 1.0] - losses[True, 0.0], rel=1e-3
    )
    assert losses[False, 2.0] == losses[False, 0.0] == losses[True, 0.0]


def depth_error_of(box, weight: float) -> float:
    """Mean of the median relative depth errors of the held-out views after a short training."""
    config = override(CONFIG, train={"sensor": weight, "rays": 256, "max_rays": 1024})
    config = override(config, networks={"density_bias": 0})
    trainer = trainer_of(config, box.bounds, box.views("train"))
    (*_, last) = trainer.train(initial(trainer), Goal(steps=150))
    qualities = evaluate(lambda: trainer.model.renderer(last.state), box.views("test"))
    return float(np.mean([view.depth_median for view in qualities]))


def test_a_trained_field_has_the_measured_depth(box):
    without, with_it = depth_error_of(box, 0.0), depth_error_of(box, 0.3)
    assert with_it < 0.03 < without


def test_the_grid_starts_at_the_measured_surfaces(box):
    views = box.views("train")
    config = override(CONFIG, train={"sensor": 0.1}, occupancy={"warmup_steps": 20})
    trainer = trainer_of(config, box.bounds, views)
    before = initial(trainer_of(CONFIG, box.bounds, views)).sampling
    state = initial(trainer)
    ages = np.array(state.sampling["updates_since_visible"])
    was_visible = np.array(before["updates_since_visible"]) == 0
    is_empty = ages == EMPTY_IN_WARMUP
    assert 0.2 < is_empty.sum() / was_visible.sum() < 0.98
    assert not is_empty[~was_visible].any()
    # Cells that contain a measured surface are occupied, and cells at half the distance are not.
    found = {0.5: [], 1.0: []}
    for index in range(len(views.names)):
        distance, confidence = map_of(views.depth, index)
        camera = views.cameras[index]
        lens = camera.lens.scaled(*distance.shape[::-1])
        rays = camera_rays(type(camera)(lens, camera.pose))
        known = (confidence > 0).ravel()
        for factor, entries in found.items():
            away = factor * distance.ravel()[known, None]
            points = np.array(rays.origin)[known] + away * np.array(rays.direction)[known]
            cells = np.array(cell_of(mx.array(points), trainer.model.sampler.geometry))
            entries.extend(is_empty[cell] for cell in cells if was_visible[cell])
    assert np.mean(found[1.0]) < 0.01
    assert np.mean(found[0.5]) > 0.9
    # After the warm-up, light and density can fill every cell.
    (*_, last) = trainer.train(state, Goal(steps=40))
    assert not (np.array(last.state.sampling["updates_since_visible"]) == EMPTY_IN_WARMUP).any()


def test_a_grid_without_the_loss_does_not_use_the_depth(box):
    views = box.views("train")
    ours, plain = (
        initial(trainer_of(override(CONFIG, train={"sensor": 0.0}), box.bounds, each)).sampling
        for each in (views, replace(views, depth=None))
    )
    assert all(mx.array_equal(ours[name], plain[name]) for name in plain)
