"""Uniformly distributed random numbers, with the values of `mx.random.uniform` but in one kernel.

On CUDA, `mx.random.uniform` in a compiled function launches two kernels, and MLX compiles the
second kernel, which converts random bits to floats, at the first start.
"""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common import checks
from nerfmac.ops.operation import operation

_TAKES = Signature(key=(mx.uint32, 2))
_UNIFORM = Kernel(
    "uniform",
    "uniform_draw",  # Metal has a type named `uniform`
    Signature(**_TAKES, count=(mx.int32, 1)),
    Signature(values=(mx.float32, "count")),
    rows="count[0] - count[0] / 2",
)


def uniform(count: int, key: mx.array) -> mx.array:
    """Draw random numbers that are uniformly distributed in [0, 1).

    The numbers are equal to `mx.random.uniform(shape=(count,), key=key)`, bit for bit.

    Args:
        count: Number of random numbers, less than 2^31.
        key: (2,) uint32, random key, such as `mx.random.key(seed)`.

    Returns:
        float32 array (count,) without a gradient.

    Raises:
        InputError: If the count is out of range, or if the key has a wrong shape or type.

    Examples:
        >>> from nerfmac.ops.uniform import uniform
        >>> key = mx.random.key(0)
        >>> mx.array_equal(uniform(5, key), mx.random.uniform(shape=(5,), key=key))
        array(True, dtype=bool)
    """
    checks.number("count", count, low=0, high=2**31 - 1, whole=True)
    _TAKES.check(key)
    return _uniform(count, key)


def _uniform_reference(count: int, key: mx.array) -> mx.array:
    return mx.random.uniform(shape=(count,), key=key)


@operation("uniform", _uniform_reference)
def _uniform(count: int, key: mx.array) -> list[mx.array]:
    pairs = count - count // 2  # rounded up
    return _UNIFORM(key, mx.array([count], mx.int32), grid=(pairs, 1, 1), count=count)
