"""Rays through neighboring pixels, and the loss that makes their depths alike."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.config import override
from nerfmac.ops.draw_pixels import REACH, chosen_pixels, next_to_each_other
from nerfmac.training.losses import RayBatch, configured_extra_losses, smoothness_loss
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
