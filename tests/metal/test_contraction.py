"""Passes that round differently, and infinities and NaN, cause no undefined behavior."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device, kernels_disabled, using
from nerfmac.backend.metal_text import on_metal
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.march import MarchGeometry, Occupied, _distance, march
from nerfmac.ops.occupancy_update import pack_bits
from tests.chosen_cases import function
from tests.metal.execute import Executor

pytestmark = pytest.mark.slow

PASSES = ("march_count", "march_write")
RAYS, SLOTS = 300, 30000
GEOMETRY = MarchGeometry(Bounds(1.0), 32, 0.0, 3**0.5 / 256, 0.0)
GROWS = MarchGeometry(Bounds(4.0), 32, 0.0, 3**0.5 / 256, 1 / 64)  # from the 64th step on

choose_device("cpu")


def meeting_faces(
    geometry: MarchGeometry, low: int, high: int
) -> tuple[mx.array, mx.array, mx.array]:
    """Rays and jitter so that a sample from `low` to `high` of each ray is on a cell face."""
    draw = np.random.default_rng(5)
    directions = draw.normal(size=(RAYS, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions, jitter = directions.astype(np.float32), draw.random(RAYS, np.float32)
    number = draw.integers(low, high, RAYS).astype(np.float32)
    distance = np.array(_distance(mx.array(jitter + number), geometry))
    places = draw.uniform(0.4, 0.6, (RAYS, 3))
    places[:, 0] = draw.integers(13, 20, RAYS) / 32
    origins = places - directions.astype(np.float64) * distance[:, None].astype(np.float64)
    return mx.array(origins, mx.float32), mx.array(directions), mx.array(jitter)


@pytest.mark.parametrize("rounded", PASSES)
def test_no_slot_is_left_without_a_value(executor, rounded):
    drawn = mx.random.uniform(shape=(GEOMETRY.cells,), key=mx.random.key(3))
    with kernels_disabled():
        bits = pack_bits((drawn < 0.5).astype(mx.float32), mx.array([0.5]))
    own = Executor(executor.folder, rounded=[rounded])
    unwritten = {}

    def execute(launch, inputs):
        outputs = own(launch, inputs)
        unwritten[function(launch)] = own.unwritten
        return outputs

    with on_metal(execute):
        samples = march(*meeting_faces(GEOMETRY, 3, 40), Occupied(GEOMETRY, bits), SLOTS)
        mx.eval(samples)
    assert set(PASSES) <= set(unwritten)
    assert not any(unwritten["march_write"].values())
    ends, width = np.array(samples.ray_start), np.array(samples.width)
    assert 1000 < ends[-1] < SLOTS
    # The passes did disagree, or this would show nothing; and where they did there is no sample.
    empty = np.flatnonzero(width[: ends[-1]] == 0)
    assert 0 < len(empty) < 0.05 * ends[-1]
    assert not np.array(samples.position)[empty].any()
    assert not np.array(samples.ray)[empty].any()


def test_steps_that_grow_have_the_same_samples_in_both_passes(executor):
    """Sample positions are exponentials, and fast exponentials can differ between kernels."""
    drawn = mx.random.uniform(shape=(GROWS.cells,), key=mx.random.key(4))
    with kernels_disabled():
        bits = pack_bits((drawn < 0.5).astype(mx.float32), mx.array([0.5]))
    own = Executor(executor.folder)
    with on_metal(own):
        samples = march(*meeting_faces(GROWS, 70, 120), Occupied(GROWS, bits), 2 * SLOTS)
        mx.eval(samples)
    width = np.array(samples.width)[: np.array(samples.ray_start)[-1]]
    assert len(width) > 1000
    assert width.all()


LEVELS = HashLevels(2, 4, 3, 1.5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_in_fixed_point_becomes_nan_in_its_level(executor, bad):
    choose_device("cpu")
    positions = mx.random.uniform(shape=(9, 3), key=mx.random.key(2))
    slopes = mx.where(mx.arange(9)[:, None] == 4, mx.array([bad, 1.0, -2.0, 0.5]), 0.25)
    table = mx.zeros((LEVELS.entries, 2))

    def encode(table: mx.array) -> mx.array:
        return hash_encode(positions, table, LEVELS)

    with on_metal(executor), using(hash_encode_gradient="fixed"):
        got = np.array(mx.vjp(encode, [table], [slopes.astype(mx.float16)])[1][0])
    end = LEVELS.shapes[1][1]
    assert np.isnan(got[:end]).all()
    assert np.isfinite(got[end:]).all()
    assert got[end:].any()
