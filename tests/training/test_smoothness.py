"""Losses that make depths of neighbors alike, and that pull density to the ground plane."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.config import override
from nerfmac.geometry.ground_plane import GroundPlane, ground_plane
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.draw_pixels import REACH, chosen_pixels, next_to_each_other
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.training.losses import (
    RayBatch,
    configured_extra_losses,
    configured_penalty_weights,
    smoothness_loss,
)
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

RANDOM = np.random.default_rng(8)
PAIRS, RAYS = 20, 43


def test_neighbors_are_in_one_image_within_reach_and_the_first_half_stays():
    draws = mx.random.uniform(shape=(3, 2001), key=mx.random.key(4))
    moved, pairs = next_to_each_other(draws)
    assert pairs == 1000
    assert mx.array_equal(moved[:, :1000], draws[:, :1000])
    assert mx.array_equal(moved[:, 2000:], draws[:, 2000:])
    first, second = np.array(moved[:, :1000]), np.array(moved[:, 1000:2000])
    np.testing.assert_array_equal(first[0], second[0])
    shift = (second - first)[1:]
    assert np.abs(shift).max() <= REACH + 1e-6
    inner = ((first[1:] > REACH) & (first[1:] < 1.0 - REACH)).all(axis=0)
    np.testing.assert_allclose(shift[:, inner].mean(axis=1), 0.0, atol=0.1 * REACH)
    np.testing.assert_allclose(shift[:, inner].std(axis=1), REACH / np.sqrt(3.0), rtol=0.06)
    assert abs(np.corrcoef(shift[:, inner])[0, 1]) < 0.12
    assert (second >= 0.0).all()
    assert (second < 1.0).all()


def test_neighbors_of_pixels_at_the_border_are_in_the_same_image(scene):
    cameras = scene.views("train").cameras
    corner = mx.array([[0.3, 0.6], [0.0, 0.9999], [0.9999, 0.0]])
    draws = mx.concatenate([corner, mx.array([[0.1, 0.9], [0.0, 1.0], [1.0, 0.0]])], axis=1)
    moved, _ = next_to_each_other(draws)
    width, height = cameras.sizes[0]
    pixel = np.array(chosen_pixels(cameras, moved))
    np.testing.assert_array_equal(pixel[:2] // (width * height), pixel[2:] // (width * height))


def batch(depth, opacity, mask=None) -> RayBatch:
    mask = mx.ones((RAYS, 1)) if mask is None else mx.array(mask, mx.float32)[:, None]
    return RayBatch(mx.zeros((RAYS, 3)), opacity, depth, mask, pairs=PAIRS)


def by_hand(depth, opacity, target):
    """The formula in float64."""
    log = np.log(np.maximum(depth / np.maximum(opacity, 1e-3), 1e-2))
    one, other = slice(0, PAIRS), slice(PAIRS, 2 * PAIRS)
    likeness = np.exp(-15.0 * np.abs(target[one] - target[other]).sum(axis=1))
    loss = np.abs(log[one] - log[other]) * likeness
    return np.concatenate([loss, loss, np.zeros(RAYS - 2 * PAIRS)])


def some_rays():
    opacity = RANDOM.uniform(0.2, 1.0, RAYS)
    depth = opacity * RANDOM.uniform(0.5, 3.0, RAYS)
    target = np.clip(0.5 + 0.05 * RANDOM.normal(size=(RAYS, 3)), 0.0, 1.0)
    return depth, opacity, target


def test_the_loss_and_its_gradient_are_those_of_the_formula():
    depth, opacity, target = some_rays()
    single = [mx.array(values, mx.float32) for values in (depth, opacity, target)]
    got = smoothness_loss(batch(*single[:2]), single[2])
    np.testing.assert_allclose(np.array(got), by_hand(depth, opacity, target), rtol=1e-5, atol=1e-7)
    weights = RANDOM.uniform(size=RAYS)

    def total(depth, opacity):
        return (smoothness_loss(batch(depth, opacity), single[2]) * mx.array(weights)).sum()

    gradients = mx.grad(total, argnums=(0, 1))(*single[:2])
    for which, gradient in enumerate(gradients):
        for index in (0, 7, PAIRS, PAIRS + 7, RAYS - 1):
            values = []
            for step in (1e-6, -1e-6):
                moved = [depth.copy(), opacity.copy()]
                moved[which][index] += step
                values.append((by_hand(*moved, target) * weights).sum())
            slope = (values[0] - values[1]) / 2e-6
            assert float(gradient[index]) == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_depth_may_jump_where_color_does_and_masked_neighbors_do_not_count():
    depth, opacity, target = some_rays()
    target[:PAIRS] = 0.2
    target[PAIRS:] = 0.2
    target[5] += 0.5
    mask = np.ones(RAYS)
    mask[[2, PAIRS + 3]] = 0.0
    got = np.array(
        smoothness_loss(
            batch(mx.array(depth, mx.float32), mx.array(opacity, mx.float32), mask),
            mx.array(target, mx.float32),
        )
    )
    want = by_hand(depth, opacity, target)
    assert got[5] < 1e-6 < 1e-3 < np.abs(np.log(depth / opacity)[[5, PAIRS + 5]]).max()
    assert (got[[2, PAIRS + 2, 3, PAIRS + 3]] == 0.0).all()
    others = np.setdiff1d(np.arange(RAYS), [2, PAIRS + 2, 3, PAIRS + 3])
    np.testing.assert_allclose(got[others], want[others], rtol=1e-5, atol=1e-7)


def test_the_weight_of_the_configuration_multiplies_it():
    depth, opacity, target = (mx.array(values, mx.float32) for values in some_rays())
    config = override(CONFIG, train={"smoothness": 0.3}).train
    (loss,) = configured_extra_losses(config)
    got, want = (each(batch(depth, opacity), target) for each in (loss, smoothness_loss))
    np.testing.assert_allclose(np.array(got), 0.3 * np.array(want), rtol=1e-6)


UP = (0.0, 0.0, 1.0)
GROUND = 2.0  # distance of the plane from the camera


def samples_at(distances: list[float]) -> Samples:
    """One ray with a sample at each of the distances, 0.01 wide."""
    count = len(distances)
    return Samples(
        mx.zeros((count, 3)),
        mx.array(distances),
        mx.full((count,), 0.01),
        mx.zeros(count, mx.int32),
        mx.array([0, count], mx.int32),
        mx.array([count], mx.int32),
    )


def loss_of(distances: list[float], density: mx.array, ground: float = GROUND) -> mx.array:
    samples = samples_at(distances)
    weights, ground = PenaltyWeights(ground=1.0), mx.array([ground])
    penalty = penalties(samples, mx.array(0.0), weights, ground=ground).sample
    return composite_penalized(density, mx.zeros((len(distances), 3)), samples, penalty)[1]


@pytest.mark.parametrize(
    ("distance", "want"), [(2.0, 0.0), (1.8, 0.1), (2.4, 0.2), (0.5, 0.3), (9.0, 0.3)]
)
def test_it_is_the_relative_distance_from_the_plane_up_to_its_reach(distance, want):
    got = loss_of([distance], mx.array([1e4]))
    assert float(got) == pytest.approx(want, abs=1e-6)


def test_its_gradient_moves_density_to_the_plane_and_leaves_distant_density_alone():
    slope = mx.grad(lambda density: loss_of([0.5, 0.6, 1.7, 2.0, 2.3], density).sum())(
        mx.full((5,), 3.0)
    )
    assert slope[3] < 0.0 < slope[2]
    assert slope[4] > 0.0
    assert abs(float(slope[1] - slope[0])) < 0.1 * float(slope[2])
    missed = mx.grad(lambda density: loss_of([1.0, 2.0], density, FAR_DISTANCE).sum())(mx.ones(2))
    assert (missed == 0.0).all()


def test_the_weight_of_the_configuration_multiplies_the_ground_loss():
    weights = configured_penalty_weights(override(CONFIG, train={"ground": 0.7}).train, 1.0)
    ground = mx.array([GROUND])
    got = penalties(samples_at([1.8]), mx.array(0.0), weights, ground=ground).sample
    assert float(got) == pytest.approx(0.07, abs=1e-6)
    assert configured_penalty_weights(override(CONFIG, train={"ground": 0.0}).train, 1.0) is None


def test_without_a_plane_it_is_zero():
    got = penalties(samples_at([0.5, 1.0]), mx.array(0.0), PenaltyWeights(ground=1.0))
    assert got.sample.tolist() == [0.0, 0.0]


def floor() -> GroundPlane:
    across = np.random.default_rng(2).uniform(0.0, 1.0, (300, 2))
    points = np.column_stack([across, np.full(300, 0.3)])
    plane = ground_plane(points, np.full(300, 0.01), UP)
    assert plane is not None
    return plane


def test_a_step_counts_it_by_its_weight_if_the_views_have_a_plane(scene):
    losses = {}
    for has_plane in (True, False):
        views = replace(scene.views("train"), find_ground=floor if has_plane else None)
        for weight in (0.0, 1.0, 2.0):
            config = override(CONFIG, train={"ground": weight})
            trainer = Trainer(config, scene.bounds, views)
            _, measured = trainer.advance(trainer.init(), rate=1e-2)
            losses[has_plane, weight] = float(measured[0])
    assert losses[True, 1.0] - losses[True, 0.0] > 1e-3
    assert losses[True, 2.0] - losses[True, 1.0] == pytest.approx(
        losses[True, 1.0] - losses[True, 0.0], rel=1e-3
    )
    assert losses[False, 2.0] == losses[False, 0.0] == losses[True, 0.0]


def test_the_training_views_have_the_plane_of_the_points_that_training_uses(scene):
    points = np.column_stack(
        [np.random.default_rng(3).uniform(0.2, 0.8, (200, 2)), np.full(200, 0.4)]
    )
    with_points = replace(scene, points=points)
    plane = with_points.views("train").ground
    assert plane is not None
    assert abs(plane.normal[2]) == pytest.approx(1.0, abs=1e-6)
    assert plane.offset / plane.normal[2] == pytest.approx(0.4, abs=1e-6)
    assert with_points.views("test").ground is None
