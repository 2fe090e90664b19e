"""Samples near their cameras learn less, by the square of their distance; no value changes."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.config import override
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.gradient_scaling import scale_gradients
from nerfmac.training.goal import Goal
from nerfmac.training.trainer import Trainer
from tests.numerics import assert_matches
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

DISTANCE = np.array([0.0, 0.3, 1.1, 1.5, 1.6, 40.0], np.float32)
FACTOR = np.array([0.0, 0.04, 0.5378, 1.0, 1.0, 1.0])  # at 1.5 in full


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_the_gradient_shrinks_with_the_square_of_the_distance_and_the_value_stays(shape):
    random = np.random.default_rng(3)
    values, slopes = random.normal(size=(2, *shape)).astype(np.float32)
    values *= 1e4  # a sum with anything would round

    def run(values: mx.array) -> mx.array:
        return scale_gradients(values, mx.array(DISTANCE), 1.5)

    got, back = mx.vjp(run, [mx.array(values)], [mx.array(slopes)])
    assert np.array_equal(np.array(got[0]), values)
    want = slopes * FACTOR.reshape(-1, *[1] * (len(shape) - 1))
    assert_matches(back[0], want, rel=2e-4, name="scaled gradient")


def first_step(scene, extent, gradient_scaling):
    """Return the loss in the first step, and the table after it."""
    config = override(CONFIG, train={"gradient_scaling": gradient_scaling}, optimizer={"rate": 1.0})
    trainer = Trainer(config, Bounds(extent), scene.views("train"))
    *_, last = trainer.train(trainer.init(), Goal(steps=1))
    return last.loss, np.array(last.state.parameters["table"])


def test_training_scales_gradients_where_cameras_are_inside_of_the_cube(scene):
    loss, plain = first_step(scene, 4.0, 0.0)
    same_loss, table = first_step(scene, 4.0, 3.0)
    assert same_loss == loss
    assert not np.array_equal(table, plain)
    _, near = first_step(scene, 4.0, 1e-6)
    assert np.array_equal(near, plain), "all samples are further away than that"


def test_an_object_in_the_unit_cube_is_learned_as_it_is(scene):
    assert np.array_equal(first_step(scene, 1.0, 3.0)[1], first_step(scene, 1.0, 0.0)[1])
