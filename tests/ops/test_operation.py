"""Signatures of arrays, and operations that run a kernel or its reference."""

from contextlib import nullcontext

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import Signature, kernels_disabled
from nerfmac.common.checks import InputError
from nerfmac.ops.operation import operation

pytestmark = pytest.mark.usefixtures("on_the_cpu")

PACKED = Signature(
    density=(mx.float32, "slots"),
    color=((mx.float32, lambda: mx.float16), "slots", 3),
    ray_start=(mx.int32, "rays + 1"),
)


def arrays(**changes):
    given = {"density": mx.zeros(4), "color": mx.zeros((4, 3)), "ray_start": mx.zeros(3, mx.int32)}
    return (given | changes).values()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"density": mx.zeros((4, 1))}, "density has shape (4, 1); expected (*)"),
        ({"color": mx.zeros((4, 2))}, "color has shape (4, 2); expected (4, 3); density has 4"),
        (
            {"color": mx.zeros((5, 3))},
            "color has shape (5, 3); expected (4, 3); density has 4 slots",
        ),
        ({"ray_start": mx.zeros((3, 1), mx.int32)}, "ray_start has shape (3, 1); expected (*)"),
        ({"density": mx.zeros(4, mx.float16)}, "density is float16; expected float32"),
        ({"color": mx.zeros((4, 3), mx.int32)}, "color is int32; expected float32 or float16"),
        ({"ray_start": mx.zeros(3)}, "ray_start is float32; expected int32"),
    ],
)
def test_a_wrong_shape_or_type_is_refused_by_name_and_by_whom_it_contradicts(changes, message):
    with pytest.raises(InputError) as refused:
        PACKED.check(*arrays(**changes))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"slots": 5}, "density has shape (4,); expected (5)"),
        ({"rays": 4}, "ray_start has shape (3,); expected (5)"),
    ],
)
def test_a_length_known_beforehand_is_nobodys_word(known, message):
    with pytest.raises(InputError) as refused:
        PACKED.check(*arrays(), **known)
    assert str(refused.value) == message


def test_outputs_have_the_lengths_and_types_that_a_launch_is_told():
    given = Signature(color=(mx.float32, "rays", 3), start=(lambda: mx.float16, "rays + 1"))
    assert given.outputs(rays=7) == {
        "output_shapes": [(7, 3), (8,)],
        "output_dtypes": [mx.float32, mx.float16],
    }
    with pytest.raises(InputError, match="'rays' of the output color has no length"):
        given.outputs(slots=7)


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

    with kernels_disabled() if disabled else nullcontext():
        value, gradient = mx.value_and_grad(loss)(x)
    assert float(value) == 36.0
    np.testing.assert_allclose(np.array(gradient), [3.0, 12.0, 27.0])
    assert calls == (["reference"] if disabled else ["kernel", "gradient"])
