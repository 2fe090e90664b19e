"""`Operation` runs the kernel if possible and the reference otherwise; gradients of both."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import kernels_disabled
from nerfmac.ops.operation import operation

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def power_of(calls):
    """An operation x^exponent that records the calls of its launch and gradient."""

    def reference(x, *, exponent):
        calls.append("reference")
        return x**exponent

    @operation("march", reference)
    def power(x, *, exponent):
        calls.append("kernel")
        return [mx.stop_gradient(x) ** exponent]

    @power.vjp
    def power_vjp(x, cotangent, output, *, exponent):
        calls.append("gradient")
        return cotangent * exponent * output / x

    return power


@pytest.mark.parametrize("disabled", [False, True])
def test_the_kernel_or_the_reference_runs_with_the_same_result_and_gradient(disabled):
    calls, x = [], mx.array([1.0, 2.0, 3.0])
    power = power_of(calls)

    def loss(x):
        return power(x, exponent=3).sum()

    if disabled:
        with kernels_disabled():
            value, gradient = mx.value_and_grad(loss)(x)
    else:
        value, gradient = mx.value_and_grad(loss)(x)
    assert float(value) == 36.0
    np.testing.assert_allclose(np.array(gradient), [3.0, 12.0, 27.0])
    assert calls == (["reference"] if disabled else ["kernel", "gradient"])


@pytest.mark.parametrize(
    ("outputs", "count"), [([1.0], None), ([1.0, 2.0], 2)], ids=["one output", "two outputs"]
)
def test_a_list_of_outputs_becomes_an_array_or_a_tuple(outputs, count):
    @operation("march", lambda x: x)
    def launch(x):
        return [x * output for output in outputs]

    result = launch(mx.ones(2))
    assert isinstance(result, mx.array) if count is None else len(result) == count
