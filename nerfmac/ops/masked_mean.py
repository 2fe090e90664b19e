"""Mean of the losses of the rays that contribute to a training step."""

from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, group_threads
from nerfmac.ops.operation import operation

_TAKES = Signature(values=(mx.float32, "rays"), mask=(mx.float32, "rays"), scale=(mx.float32, 1))
_GIVES = Signature(mean=(mx.float32, 1), share=(mx.float32, 1))
_FORWARD = Kernel(
    "masked_mean",
    "masked_mean_forward",
    _TAKES,
    _GIVES,
    space="float space[2 * GROUP_SIMDGROUPS]",
)
_GRADIENT = Kernel(
    "masked_mean",
    "masked_mean_gradient",
    Signature(
        mask=_TAKES["mask"], scale=_TAKES["scale"], share=_GIVES["share"], d_mean=_GIVES["mean"]
    ),
    Signature(d_values=_TAKES["values"]),
)


class MaskedMean(NamedTuple):
    """Result of `masked_mean`. Both fields are float32 scalar arrays."""

    mean: mx.array  # scaled mean of the values with mask 1
    share: mx.array  # fraction of the rays that have mask 1


def masked_mean(values: mx.array, mask: mx.array, scale: mx.array) -> MaskedMean:
    """Compute the mean of the values of the rays with mask 1, times a scale.

    The mean is scale * sum(values * mask) / max(sum(mask), 1), so it is 0 if no ray has mask 1. If
    a value is not finite, the mean is not finite, even if the ray has mask 0. Results are
    reproducible bit for bit.

    Args:
        values: (rays,) float32, with at least one ray.
        mask: (rays,) float32, 0 or 1.
        scale: float32 array with one element.

    Returns:
        `MaskedMean`, with a `mean` that is differentiable with respect to `values`. No gradient
        flows to `mask` and `scale`.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        >>> from nerfmac.ops.masked_mean import masked_mean
        >>> values, mask = mx.array([1.0, 5.0, 3.0, 0.0]), mx.array([1.0, 0.0, 1.0, 0.0])
        >>> mean, share = masked_mean(values, mask, mx.array(10.0))
        >>> mean.item(), share.item()
        (20.0, 0.5)
    """
    scale = scale.reshape(-1)
    _TAKES.check(values, mask, scale)
    return MaskedMean(*(result.reshape(()) for result in _masked_mean(values, mask, scale)))


def _masked_mean_reference(
    values: mx.array, mask: mx.array, scale: mx.array
) -> tuple[mx.array, mx.array]:
    mask, scale = mx.stop_gradient(mask), mx.stop_gradient(scale)
    weights = mask / mx.maximum(mask.sum(), 1.0)
    return (scale * values * weights).sum(keepdims=True), mask.mean(keepdims=True)


@operation("masked_mean", _masked_mean_reference)
def _masked_mean(values: mx.array, mask: mx.array, scale: mx.array) -> list[mx.array]:
    # The kernel requires exactly one threadgroup.
    threads = group_threads()
    return _FORWARD(values, mask, scale, grid=(threads, 1, 1), group=threads)


@_masked_mean.vjp
def _masked_mean_vjp(primals, cotangents, outputs):  # type: ignore[no-untyped-def]
    values, mask, scale = primals
    arrays = mask, scale, outputs[1], cotangents[0]
    (d_values,) = _GRADIENT(*arrays, grid=(values.shape[0], 1, 1))
    return d_values, mx.zeros_like(mask), mx.zeros_like(scale)
