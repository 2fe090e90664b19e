"""The terms against floaters are what their formulas say, and so are their gradients."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.config import override
from nerfmac.geometry.samples import Samples
from nerfmac.training.regularisers import entropy, spread
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

STARTS = (0, 3, 3, 4, 9)  # the second ray has no sample; two slots are of no ray
SLOTS = 11


def samples() -> tuple[Samples, np.ndarray]:
    random = np.random.default_rng(4)
    distance = np.cumsum(random.uniform(0.1, 0.5, SLOTS)).astype(np.float32)
    width, density = random.uniform(0.1, 0.4, (2, SLOTS)).astype(np.float32)
    ray = np.repeat([0, 2, 3, 0], [3, 1, 5, 2]).astype(np.int32)
    distance[9:] = width[9:] = 0.0
    position = mx.zeros((SLOTS, 3))
    start = mx.array(STARTS, mx.int32)
    arrays = (mx.array(each) for each in (distance, width, ray))
    return Samples(position, *arrays, start, start[1:] - start[:-1]), 4.0 * density


def spread_of_pairs(density: np.ndarray, given: Samples) -> np.ndarray:
    found = []
    for begin, end in pairwise(STARTS):
        width, distance = (np.array(a)[begin:end] for a in (given.width, given.distance))
        optical = density[begin:end].astype(float) * width
        before = np.cumsum(optical) - optical
        weight = np.exp(-before) * (1 - np.exp(-optical))
        place = distance / (1.0 + distance)
        apart = np.square(place[:, None] - place[None])
        found.append((weight[:, None] * weight[None] * apart).sum())
    return np.array(found)


def test_the_spread_is_the_sum_over_all_pairs_of_samples():
    given, density = samples()
    got = np.array(spread(mx.array(density), given))
    want = spread_of_pairs(density, given)
    assert want[[0, 3]].min() > 1e-3
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_gradient_of_the_spread_is_that_of_the_sum_over_pairs():
    given, density = samples()
    got = np.array(mx.grad(lambda each: spread(each, given).sum())(mx.array(density)))
    for slot in range(SLOTS):
        step = np.zeros(SLOTS)
        step[slot] = 1e-3
        ends = (spread_of_pairs(density + by, given).sum() for by in (step, -step))
        want = np.subtract(*ends) / 2e-3
        assert got[slot] == pytest.approx(want, abs=1e-5), slot


def test_the_entropy_is_largest_half_way_and_has_a_finite_slope():
    opacity = mx.array([0.0, 0.1, 0.5, 0.9, 1.0])
    got = np.array(entropy(opacity))
    assert got[2] == pytest.approx(np.log(2), rel=1e-5)
    assert got[1] == pytest.approx(-0.1 * np.log(0.1) - 0.9 * np.log(0.9), rel=1e-5)
    assert got[1] == pytest.approx(got[3], rel=1e-4)
    assert max(got[0], got[4]) < 2e-3
    slope = np.array(mx.grad(lambda o: entropy(o).sum())(opacity))
    assert np.isfinite(slope).all()
    assert slope[1] > 1 > 0 > slope[3]


@pytest.mark.parametrize("term", ["distortion", "entropy"])
def test_a_step_counts_the_term_by_its_weight(scene, term):
    losses = []
    for weight in (0.0, 10.0, 20.0):
        config = override(CONFIG, train={term: weight})
        trainer = Trainer(config, scene.extent, scene.views("train"))
        _, measured = trainer.advance(trainer.init(), rate=1e-2)
        losses.append(float(measured[0]))
    assert losses[1] - losses[0] > 1e-3
    assert losses[2] - losses[0] == pytest.approx(2 * (losses[1] - losses[0]), rel=1e-3)
