"""A launch's bytes, operations and atomic additions follow from its own arrays."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.measure.launches import by_kernel, launches, recorded_launches
from nerfmac.app.measure.selftest.specializations import unseen
from nerfmac.backend import pretended, using
from nerfmac.config import PRESETS, override
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.networks import NetworksShape, networks

pytestmark = pytest.mark.usefixtures("on_the_cpu")

LEVELS, FEATURES, POINTS = HashLevels(4, 12, 16, 2.0), 4, 100
SETTINGS = 256
"""Bytes: more than all a kernel's settings, less than any mistake at these sizes."""


def table_gradient(points, *, chosen="float"):
    table = mx.ones((LEVELS.entries, FEATURES))
    positions = mx.random.uniform(shape=(points, 3), key=mx.random.key(1))

    def encode(table):
        return hash_encode(positions, table, LEVELS)

    with using(hash_encode_gradient=chosen):
        found = launches(lambda: mx.vjp(encode, [table], [mx.ones((points, 16))]))
    return next(each for each in found if each.name.startswith("hash_encode_table_"))


def test_a_gradient_s_atomics_are_one_for_each_point_level_corner_and_feature():
    added = 100 * 4 * 8 * 4
    assert table_gradient(100).work.float_atomics == added
    fixed = table_gradient(100, chosen="fixed").work
    assert (fixed.float_atomics, fixed.integer_atomics) == (0, added)


def test_a_table_s_rows_are_gathered_again_and_again_without_a_cache():
    table = mx.ones((LEVELS.entries, FEATURES))

    def encoding(points):
        positions = mx.random.uniform(shape=(points, 3), key=mx.random.key(1))
        (only,) = launches(lambda: hash_encode(positions, table, LEVELS))
        return only.work

    few, many = encoding(1), encoding(10**5)
    assert few.cached == few.uncached == pytest.approx(12 + 4 * 8 * 16 + 64, abs=SETTINGS)
    assert many.cached == pytest.approx(12e5 + table.nbytes + 64e5, abs=SETTINGS)
    assert many.uncached == pytest.approx(12e5 + 512e5 + 64e5, abs=SETTINGS)
    assert many.operations == 10**5 * few.operations


def test_networks_multiply_and_add_each_sample_with_each_weight():
    shape, slots = NetworksShape(32, 64, 1, 2), 50
    weights = 32 * 64 + 64 * 16, 32 * 64 + 64 * 64 + 64 * 16
    arrays = [mx.ones((slots, 32)), mx.ones(weights[0]), mx.ones(weights[1])]
    basis, ray, used = mx.ones((slots, 16)), mx.arange(slots), mx.array([slots])

    def run(features, density, color):
        return list(networks(features, basis, ray, used, density, color, shape))

    slopes = [mx.ones(slots), mx.ones((slots, 3))]
    works = {each.name: each.work for each in launches(lambda: mx.vjp(run, arrays, slopes))}
    assert works["networks_forward"].operations == 2 * slots * sum(weights)
    assert works["networks_gradient"].operations == 3 * works["networks_forward"].operations
    assert works["networks_store"].cached == 3 * 4 * sum(weights)


@pytest.mark.parametrize("name", ["tiny", "base"])
def test_the_launches_of_an_apple_gpu_are_recorded_on_any_machine(name):
    config = override(PRESETS[name], grid={"log2_entries": 12}, train={"rays": 64})
    trained = unseen(config)
    here = recorded_launches(*trained)
    with pretended("metal", 15):
        there = recorded_launches(*trained, runs=False)
    assert [[each.name for each in some] for some in here] == [
        [each.name for each in some] for some in there
    ]
    own, other = by_kernel(here[-2]), by_kernel(there[-2])
    assert own.keys() == other.keys()
    # Features and activations take half the bytes there.
    (forward,), (half,) = own["networks_forward"], other["networks_forward"]
    assert half.work.cached < 0.9 * forward.work.cached
    assert [each.work for each in own["adam"]] == [each.work for each in other["adam"]]
    assert not any(np.array(array).any() for each in there[-2] for array in each.outputs)
