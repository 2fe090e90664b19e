"""Losses and their gradients equal their formulas; custom losses get the same arguments."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import nerfmac
from nerfmac import Bounds, FieldOutput, Samples
from nerfmac.common.constants import OCCLUSION_END
from nerfmac.config import override
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.huber import huber
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.training.losses import RayBatch
from tests.scene_factory import CONFIG, initial, trainer_of

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


def ray_batch(density: mx.array, samples: Samples) -> RayBatch:
    numbers, vectors, index = mx.zeros(4), mx.zeros((4, 3)), mx.zeros(4, mx.int32)
    return RayBatch(
        color=vectors,
        opacity=numbers,
        depth=numbers,
        extras={},
        mask=mx.ones((4, 1)),
        output=FieldOutput(density, mx.zeros((SLOTS, 3))),
        samples=samples,
        origin=vectors,
        direction=vectors,
        view=index,
        pixel=index,
        density_at=lambda position: mx.zeros(len(position)),
        over_background=lambda seen: seen,
        radius=numbers,
        train_frac=mx.array(0.0),
        known={},
        parameters={},
    )


def occlusion(density: mx.array, samples: Samples, progress: float) -> mx.array:
    penalty = penalties(samples, mx.array(progress), PenaltyWeights(occlusion=1.0)).sample
    return composite_penalized(density, mx.zeros((SLOTS, 3)), samples, penalty)[1]


def weights_of(density: np.ndarray, given: Samples, ray: int) -> np.ndarray:
    part = slice(STARTS[ray], STARTS[ray + 1])
    optical = density[part].astype(float) * np.array(given.width)[part]
    return np.exp(optical - np.cumsum(optical)) * (1 - np.exp(-optical))


@pytest.mark.parametrize(("progress", "factor"), [(0.0, 1.0), (0.3 * OCCLUSION_END, 0.7), (0.8, 0)])
def test_the_occlusion_is_the_mean_over_the_weights_and_fades(progress, factor):
    given, density = samples()
    got = np.array(occlusion(mx.array(density), given, progress))
    for ray in range(4):
        distance = np.array(given.distance)[STARTS[ray] : STARTS[ray + 1]]
        want = factor * (weights_of(density, given, ray) / (1.0 + distance)).sum()
        assert got[ray] == pytest.approx(want, abs=1e-6), ray
    assert (got[[0, 2, 3]] > 0.1 * factor).all() or not factor


def test_the_gradient_of_the_occlusion_moves_matter_away_from_the_camera():
    given, density = samples()
    got = np.array(mx.grad(lambda each: occlusion(each, given, 0.0).sum())(mx.array(density)))
    for slot in range(SLOTS):
        step = np.zeros(SLOTS)
        step[slot] = 1e-2
        ends = (occlusion(mx.array(density + by), given, 0.0).sum().item() for by in (step, -step))
        assert got[slot] == pytest.approx(np.subtract(*ends) / 2e-2, abs=1e-4), slot
    opaque = np.where(np.arange(SLOTS) == 8, 1e3, density)  # the last sample of the last ray
    slopes = mx.grad(lambda each: occlusion(each, given, 0.0)[3])(mx.array(opaque))
    assert (np.array(slopes)[4:8] > 0).all()


def test_the_occlusion_counts_only_in_scenes_beyond_the_unit_cube(scene):
    def loss(extent: float, weight: float) -> float:
        config = override(CONFIG, train={"occlusion": weight})
        trainer = trainer_of(config, Bounds(extent), scene.views("train"))
        return float(trainer.advance(initial(trainer), factor=1 / 3)[1].measured[0])

    assert loss(1.0, 10.0) == loss(1.0, 0.0)
    one, two = (loss(2.0, weight) - loss(2.0, 0.0) for weight in (10.0, 20.0))
    assert one > 1e-3
    assert two == pytest.approx(2 * one, rel=1e-3)


def distortion_of_pairs(density: np.ndarray, given: Samples) -> np.ndarray:
    found = []
    for ray, (begin, end) in enumerate(pairwise(STARTS)):
        distance, weight = np.array(given.distance)[begin:end], weights_of(density, given, ray)
        place = distance / (1.0 + distance)
        apart = np.square(place[:, None] - place[None])
        found.append((weight[:, None] * weight[None] * apart).sum())
    return np.array(found)


def distortion(density: mx.array, samples: Samples) -> mx.array:
    """The distortion loss of `docs/extending.md`, without its weight."""
    text = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")
    (code,) = (block for block in text.split("```python\n") if "def distortion" in block)
    names: dict[str, Any] = {}
    exec(code.partition("scene = ")[0], names)
    return names["distortion"](ray_batch(density, samples), mx.zeros((4, 3))) / 0.01


def test_the_distortion_is_the_sum_over_all_pairs_of_samples():
    given, density = samples()
    got = np.array(distortion(mx.array(density), given))
    want = distortion_of_pairs(density, given)
    assert want[[0, 3]].min() > 1e-3
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_gradient_of_the_distortion_is_that_of_the_sum_over_pairs():
    given, density = samples()
    got = np.array(mx.grad(lambda each: distortion(each, given).sum())(mx.array(density)))
    for slot in range(SLOTS):
        step = np.zeros(SLOTS)
        step[slot] = 1e-3
        ends = (distortion_of_pairs(density + by, given).sum() for by in (step, -step))
        want = np.subtract(*ends) / 2e-3
        assert got[slot] == pytest.approx(want, abs=1e-5), slot


def test_weights_are_those_of_the_formula_and_zero_in_slots_of_no_ray():
    given, density = samples()
    got = np.array(ray_batch(mx.array(density), given).weights)
    want = [*np.concatenate([weights_of(density, given, ray) for ray in range(4)]), 0.0, 0.0]
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert got[:9].min() > 1e-3


def own_distortion(rays: RayBatch, target: mx.array) -> mx.array:
    """The distortion as a user would write it, from weights and distances: sums over pairs."""
    assert target.shape == rays.color.shape
    assert rays.mask.shape == (target.shape[0], 1)
    s = rays.distances / (1.0 + rays.distances)
    total, mean, square = (
        mx.zeros(target.shape[0]).at[rays.samples.ray].add(rays.weights * s**power)
        for power in (0, 1, 2)
    )
    return 10.0 * 2.0 * (total * square - mean * mean)


def first_step(scene, config, **method):
    """The measurements of the first step, and the parameters after it."""
    method = nerfmac.Method(**method)
    trainer = trainer_of(config, scene.bounds, scene.views("train"), method)
    after, result = trainer.advance(initial(trainer), factor=1 / 3)
    return np.array(result.measured), {n: np.array(v) for n, v in after.parameters.items()}


def test_own_losses_on_weights_are_added_to_the_color_loss(scene):
    plain, still = first_step(scene, CONFIG)
    once, moved = first_step(scene, CONFIG, extra_losses=[own_distortion])
    twice, _ = first_step(scene, CONFIG, extra_losses=[own_distortion, own_distortion])
    assert once[0] > plain[0] + 1e-3
    assert twice[0] - once[0] == pytest.approx(once[0] - plain[0], rel=1e-3)
    for name, values in moved.items():
        assert name == "color" or np.abs(still[name] - values).max() > 1e-3, name


def test_a_color_loss_may_be_on_weights_too(scene):
    def loss(rays, target):
        color = huber(rays.color, target, CONFIG.train.huber)
        return color + own_distortion(rays, target)

    want, _ = first_step(scene, CONFIG, extra_losses=[own_distortion])
    got, _ = first_step(scene, CONFIG, loss=loss)
    np.testing.assert_allclose(got, want, rtol=1e-4)
