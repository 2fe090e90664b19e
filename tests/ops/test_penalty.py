"""Penalties of samples equal their formulas, with and without a kernel."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.geometry.samples import Samples
from nerfmac.ops.penalty import PenaltyWeights, penalties

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
RAYS, SLOTS, TRACKED = 37, 300, 9
RANDOM = np.random.default_rng(3)
RAY = RANDOM.integers(0, RAYS, SLOTS, np.int32)
DISTANCE = RANDOM.uniform(0.1, 4.0, SLOTS).astype(np.float32)
RAY[-1], DISTANCE[-1] = 0, 0.0  # as in unused slots
TRACKS = RANDOM.uniform(0.5, 1.5, (TRACKED, 3)).astype(np.float32)
GROUND = np.where(np.arange(RAYS) % 4 == 0, FAR_DISTANCE, RANDOM.uniform(0.5, 3.0, RAYS))
GROUND = GROUND.astype(np.float32)
SENSOR = np.stack([RANDOM.uniform(0.5, 3.0, RAYS), RANDOM.choice([0.0, 0.5, 1.0], RAYS)], axis=1)
SENSOR = SENSOR.astype(np.float32)


def samples(ray: np.ndarray = RAY, distance: np.ndarray = DISTANCE, rays: int = RAYS) -> Samples:
    starts = mx.zeros(rays + 1, mx.int32)
    distances = mx.array(distance)
    return Samples(mx.zeros((len(ray), 3)), distances, distances, mx.array(ray), starts, starts[1:])


def given(progress: float, weights: PenaltyWeights, **changed) -> tuple[np.ndarray, np.ndarray]:
    # In memory, other rows follow those of the tracks. The kernel must not read the other rows.
    tracks = mx.array(np.concatenate([TRACKS, TRACKS + 1.0]))[:TRACKED]
    arrays = {"tracks": tracks, "ground": mx.array(GROUND), "sensor": mx.array(SENSOR), **changed}
    return tuple(map(np.array, penalties(samples(), mx.array(progress), weights, **arrays)))


def by_hand(progress: float, weights: PenaltyWeights) -> tuple[np.ndarray, np.ndarray]:
    """The formulas in float64."""
    distance, ray = DISTANCE.astype(np.float64), np.zeros(RAYS)
    sample = weights.occlusion * max(1.0 - progress / 0.5, 0.0) / (1.0 + distance)
    known, confidence, spread = TRACKS.astype(np.float64).T
    fading = max(1.0 - progress, 0.0)
    ray[:TRACKED] = weights.depth * fading * RAYS / TRACKED * confidence
    has_track = RAY < TRACKED
    track = RAY[has_track]
    miss = (distance[has_track] - known[track]) / spread[track]
    sample[has_track] -= ray[track] * np.exp(-(miss**2) / 2)
    away = np.minimum(np.abs(distance / GROUND.astype(np.float64)[RAY] - 1.0), 0.3)
    sample = sample + weights.ground * np.where(RAY % 4 == 0, 0.0, away)
    measured, confidence = SENSOR.astype(np.float64).T
    miss = np.minimum(np.abs(distance / measured[RAY] - 1.0), 0.1) / 0.1
    sample -= weights.sensor * confidence[RAY] * (1.0 - miss)
    return sample, ray + weights.sensor * confidence


@pytest.mark.parametrize(
    "weights",
    [
        PenaltyWeights(),
        PenaltyWeights(occlusion=0.7),
        PenaltyWeights(depth=0.3),
        PenaltyWeights(ground=0.4),
        PenaltyWeights(occlusion=0.7, ground=0.4),
        PenaltyWeights(sensor=0.6),
        PenaltyWeights(0.7, 0.3, 0.4, 0.6),
    ],
)
@pytest.mark.parametrize("progress", [0.0, 0.2, 0.6, 1.0])
def test_penalties_equal_their_formulas(progress, weights):
    sample, ray = given(progress, weights)
    want_sample, want_ray = by_hand(progress, weights)
    # The importance of a track is up to 2, and terms are at most a few roundings each.
    np.testing.assert_allclose(sample, want_sample, atol=32 * ROUNDOFF)
    np.testing.assert_allclose(ray, want_ray, atol=16 * ROUNDOFF)


@pytest.mark.parametrize(
    ("missing", "name"),
    [({"tracks": None}, "depth"), ({"ground": None}, "ground"), ({"sensor": None}, "sensor")],
)
def test_a_loss_without_its_array_is_zero(missing, name):
    weights = PenaltyWeights(0.7, 0.3, 0.4, 0.6)
    got, want = given(0.1, weights, **missing), given(0.1, weights._replace(**{name: 0.0}))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_gradient_flows_to_distances():
    weights = PenaltyWeights(0.7, 0.3, 0.4)

    def total(distance: mx.array) -> mx.array:
        moved = samples()._replace(distance=distance)
        return penalties(moved, mx.array(0.1), weights, mx.array(TRACKS)).sample.sum()

    assert not np.array(mx.grad(total)(mx.array(DISTANCE))).any()


def test_a_compiled_function_has_the_same_result():
    weights = PenaltyWeights(0.7, 0.3, 0.4, 0.6)

    def run(progress: mx.array, *known: mx.array) -> list[mx.array]:
        return list(penalties(samples(), progress, weights, *known))

    arrays = mx.array(0.1), mx.array(TRACKS), mx.array(GROUND), mx.array(SENSOR)
    for one, other in zip(run(*arrays), mx.compile(run)(*arrays), strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=32 * ROUNDOFF)
