"""What is not finite does nothing that Metal leaves undefined; a conversion to an integer might."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device, using
from nerfmac.backend.metal_text import on_metal
from nerfmac.ops.hash_encode import HashLevels, hash_encode

pytestmark = pytest.mark.slow

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
