"""The random numbers are those of `mx.random.uniform`, bit for bit, and less than 1."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.ops.uniform import uniform

pytestmark = pytest.mark.usefixtures("run_by")

KEYS = {
    "zero": [0, 0],
    "one word": [0, 7],
    "other word": [7, 0],
    "ones": [2**32 - 1, 2**32 - 1],
    "random": [0x13198A2E, 0xF3707344],
}


def expected(count: int, key: mx.array) -> np.ndarray:
    return np.array(mx.random.uniform(shape=(count,), key=key))


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 16, 255, 256, 257, 511, 513, 100_000, 100_001])
def test_the_numbers_are_those_of_mlx(count, key):
    key = mx.array(key, mx.uint32)
    got = np.array(uniform(count, key))
    assert got.dtype == np.float32
    assert got.shape == (count,)
    assert (got == expected(count, key)).all()


def test_the_key_may_be_part_of_a_larger_array_in_a_compiled_function():
    values = mx.arange(7, dtype=mx.uint32)
    draw = mx.compile(lambda values: (uniform(5, values[3:5]), uniform(4, values[::4])))
    first, second = map(np.array, draw(values))
    assert (first == expected(5, mx.array([3, 4], mx.uint32))).all()
    assert (second == expected(4, mx.array([0, 4], mx.uint32))).all()


def test_a_word_that_rounds_to_one_gives_a_smaller_number():
    count, index, key = 2**20, 784285, mx.random.key(9)
    words = mx.random.split(key, count // 2).reshape(-1)
    assert words[index].item() == 2**32 - 2
    got = np.array(uniform(count, key))
    assert got[index] == got.max() == np.nextafter(np.float32(1), np.float32(0))
    assert (got == expected(count, key)).all()
