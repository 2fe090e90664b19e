"""Exposure of composited colors, with a trained exposure for each view."""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, simd_width
from nerfmac.common.constants import EXPOSE_CHUNK, MIN_EXPOSED_OPACITY
from nerfmac.geometry import linear_to_srgb, srgb_to_linear
from nerfmac.ops.operation import operation

_TAKES = Signature(
    color=(mx.float32, "rays", 3),
    opacity=(mx.float32, "rays"),
    logarithms=(mx.float32, "views", 3),
    view=(mx.int32, "rays"),
    background=(mx.float32, "rays", 3),
)
_FACTORS_GIVES = Signature(factors=_TAKES["logarithms"])
_GIVES = Signature(exposed=_TAKES["color"])
_FORWARD_TAKES = Signature(
    color=_TAKES["color"],
    opacity=_TAKES["opacity"],
    **_FACTORS_GIVES,
    view=_TAKES["view"],
    background=_TAKES["background"],
)
_RAY_GRADIENTS = Signature(
    d_color=_TAKES["color"], d_opacity=_TAKES["opacity"], d_exposures=_TAKES["color"]
)
_SUMS = Signature(sums=(mx.float32, "views + 1", 3, "chunks"))
_FACTORS = Kernel(
    "expose", "expose_factors", Signature(logarithms=_TAKES["logarithms"]), _FACTORS_GIVES
)
_FORWARD = Kernel("expose", "expose_forward", _FORWARD_TAKES, _GIVES)
_GRADIENT = Kernel(
    "expose",
    "expose_gradient",
    Signature(**_FORWARD_TAKES, d_exposed=_TAKES["color"]),
    _RAY_GRADIENTS,
)
_VIEW_SUMS = Kernel(
    "expose",
    "expose_view_sums",
    Signature(view=_TAKES["view"], d_exposures=_TAKES["color"], views=(mx.int32, 1)),
    _SUMS,
)
_VIEW_GRADIENT = Kernel(
    "expose",
    "expose_view_gradient",
    Signature(**_SUMS, chunks=(mx.int32, 1)),
    Signature(d_logarithms=_TAKES["logarithms"]),
)


def expose(
    color: mx.array,
    opacity: mx.array,
    logarithms: mx.array,
    view: mx.array,
    background: mx.array | None = None,
) -> mx.array:
    """Multiply the linear light of each ray by the exposure of its view, relative to the mean.

    Each color is divided by its opacity and converted from sRGB to linear light. The light is
    multiplied by exp(logarithm - mean), where the logarithm is that of the ray's view and the mean
    is over all views. The light is then clipped at 1, converted to sRGB, and multiplied by the
    opacity. Gradients are reproducible bit for bit.

    Args:
        color: (rays, 3) float32, sRGB color in [0, 1], premultiplied by the opacity.
        opacity: (rays,) float32, in [0, 1].
        logarithms: (views, 3) float32, natural logarithms of the factors of red, green, and blue
            light.
        view: (rays,) int32, index of the view of each ray.
        background: (rays, 3) float32, sRGB color behind each ray, which is not exposed. None is the
            same as black, so that the result is premultiplied by the opacity.

    Returns:
        float32 array (rays, 3), differentiable with respect to `color`, `opacity`, and
        `logarithms`. No gradient flows to `background`.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        The exposures of the two views are 2 and 1/2 relative to their mean, because only the
        difference between their logarithms matters.

        >>> from nerfmac.ops.expose import expose
        >>> logarithms = mx.log(mx.array([[4.0, 4.0, 4.0], [1.0, 1.0, 1.0]]))
        >>> gray = mx.full((2, 3), 0.5)
        >>> mx.round(expose(gray, mx.ones(2), logarithms, mx.array([0, 1])), 2)
        array([[0.69, 0.69, 0.69],
               [0.36, 0.36, 0.36]], dtype=float32)
    """
    if background is None:
        background = mx.zeros(color.shape)
    _TAKES.check(color, opacity, logarithms, view, background)
    exposed, _ = _expose(color, opacity, logarithms, view, background)
    return exposed


def _expose_reference(
    color: mx.array, opacity: mx.array, logarithms: mx.array, view: mx.array, background: mx.array
) -> tuple[mx.array, mx.array]:
    factors = mx.exp(logarithms - logarithms.mean(axis=0))
    opacity = opacity[:, None]
    divisor = mx.maximum(opacity, MIN_EXPOSED_OPACITY)
    light = mx.minimum(factors[view] * srgb_to_linear(color / divisor), 1.0)
    exposed = divisor * linear_to_srgb(light) + (1.0 - opacity) * mx.stop_gradient(background)
    return exposed, mx.stop_gradient(factors)


@operation("expose", _expose_reference)
def _expose(
    color: mx.array, opacity: mx.array, logarithms: mx.array, view: mx.array, background: mx.array
) -> list[mx.array]:
    (factors,) = _FACTORS(logarithms, grid=(logarithms.shape[0] * simd_width(), 1, 1))
    (exposed,) = _FORWARD(color, opacity, factors, view, background, grid=(view.shape[0], 1, 1))
    return [exposed, factors]


@_expose.vjp
def _expose_vjp(primals, cotangents, outputs):  # type: ignore[no-untyped-def]
    color, opacity, logarithms, view, background = primals
    (rays,), views = view.shape, logarithms.shape[0]
    d_color, d_opacity, d_exposures = _GRADIENT(
        *(color, opacity, outputs[1], view, background, cotangents[0]),
        grid=(rays, 1, 1),
    )
    chunks = -(-rays // EXPOSE_CHUNK)
    count = mx.array([views], mx.int32)
    (sums,) = _VIEW_SUMS(view, d_exposures, count, grid=(chunks, 1, 1), views=views, chunks=chunks)
    (d_logarithms,) = _VIEW_GRADIENT(
        sums, mx.array([chunks], mx.int32), grid=(views * simd_width(), 1, 1)
    )
    return d_color, d_opacity, d_logarithms, mx.zeros_like(view), mx.zeros_like(background)
