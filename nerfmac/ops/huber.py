"""Huber loss of colors (Huber 1964), which is quadratic for small errors and linear for large
errors."""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.ops.operation import operation

_TAKES = Signature(predicted=(mx.float32, "rays", 3), target=(mx.float32, "rays", 3))
_GIVES = Signature(loss=(mx.float32, "rays"))
_WITH_DELTA = Signature(**_TAKES, delta=(mx.float32, 1))
_FORWARD = Kernel("huber", "huber_forward", _WITH_DELTA, _GIVES)
_GRADIENT = Kernel(
    "huber",
    "huber_gradient",
    Signature(**_WITH_DELTA, d_loss=_GIVES["loss"]),
    Signature(d_predicted=_TAKES["predicted"]),
)


def huber(predicted: mx.array, target: mx.array, delta: float) -> mx.array:
    """Compute the mean Huber loss of the color channels of each ray.

    For an error e, the loss of a channel is e^2 / (2 delta) if |e| <= delta, and |e| - delta / 2
    otherwise. The slope of the linear part is 1.

    Args:
        predicted: (rays, 3) float32.
        target: (rays, 3) float32.
        delta: Error above which the loss is linear, greater than 0.

    Returns:
        float32 array (rays,), differentiable with respect to `predicted`. No gradient flows to
        `target`.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        >>> from nerfmac.ops.huber import huber
        >>> predicted = mx.array([[0.1, 0.0, 0.0], [1.0, 1.0, 1.0]])
        >>> mx.round(huber(predicted, mx.zeros((2, 3)), delta=0.2), 4)
        array([0.0083, 0.9], dtype=float32)
    """
    _TAKES.check(predicted, target)
    return _huber(predicted, target, delta=delta)


def _huber_reference(predicted: mx.array, target: mx.array, *, delta: float) -> mx.array:
    error = predicted - mx.stop_gradient(target)
    clipped = mx.clip(error, -delta, delta)
    return (clipped * (error - 0.5 * clipped)).mean(axis=1) / delta


@operation("huber", _huber_reference)
def _huber(predicted: mx.array, target: mx.array, *, delta: float) -> list[mx.array]:
    return _FORWARD(predicted, target, mx.array([delta]), grid=(predicted.shape[0], 1, 1))


@_huber.vjp
def _huber_vjp(primals, cotangent, _output, *, delta):  # type: ignore[no-untyped-def]
    predicted, target = primals
    arrays = predicted, target, mx.array([delta]), cotangent
    (d_predicted,) = _GRADIENT(*arrays, grid=(predicted.shape[0], 1, 1))
    return d_predicted, mx.zeros_like(target)
