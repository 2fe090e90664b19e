"""Alpha compositing of packed samples along rays.

    weight_i = T_i (1 - exp(-tau_i)) / p_i,   tau_i = density_i width_i
    T_i = exp(-(omitted_i + sum_{j<i} tau_j))
    opacity = 1 - exp(-(omitted + sum_i tau_i))

(Mildenhall et al. 2020, equation 3.) A ray ends before the first sample with T_i below 1e-4. The
samples of ray r are in the slots ray_start[r] : ray_start[r + 1]. Slots after the last ray are
unused. Density is per scene unit, and width and distance are in scene units.

If `thin` omitted samples at random, p_i is the probability that sample i was kept, and omitted_i is
the optical depth of the samples omitted in front of sample i. The optical depth of all samples
omitted on the ray is called omitted. Transmittance and opacity are therefore exact. In the sums for
color and depth, and in all gradients, a kept sample is multiplied by 1 / p_i to represent omitted
samples:

    d color / d tau_i   = (T_i exp(-tau_i) color_i - sum_{j>i} weight_j color_j) / p_i
    d opacity / d tau_i = (1 - opacity) / p_i

The means of the gradients with respect to tau_i are slightly biased; see `nerfmac.ops.thin`.
Without thinning, p_i is 1 and omitted_i is 0.

The gradient of a squared error is twice the error times the color gradient. With thinning, the
error and the color gradient are random and correlated, so the mean of their product is biased
toward haze. The caller may therefore pass the expected color of each ray. In training, it is the
pixel color. The expected color serves as a control variate: colors are summed relative to it:

    color = opacity expected + sum_i weight_i (color_i - expected) + (1 - opacity) background

The control variate does not change the mean color. Without thinning, it does not change the color
at all. With thinning, the noise of the color is proportional to the remaining error.

In training, the gradients of samples near the camera can be scaled; see `scale_gradients`.
"""

from collections.abc import Mapping
from typing import NamedTuple, cast

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, simd_width
from nerfmac.common.constants import EARLY_STOP_TRANSMITTANCE
from nerfmac.geometry import Samples, Thinning
from nerfmac.ops.operation import operation

_TAKES = Signature(
    density=(mx.float32, "slots"),
    color=(mx.float32, "slots", 3),
    distances=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    ray_start=(mx.int32, "rays + 1"),
    inverse_probability=(mx.float32, "slots"),
    omitted=(mx.float32, "slots"),
    expected=(mx.float32, "rays", 3),
    background=(mx.float32, "rays", 3),
    penalty=(mx.float32, "slots"),
    ray_omitted=(mx.float32, "rays"),
)
_GIVES = Signature(
    ray_color=(mx.float32, "rays", 3),
    opacity=(mx.float32, "rays"),
    depth=(mx.float32, "rays"),
    ray_penalty=(mx.float32, "rays"),
    difference=(mx.float32, "rays", 3),
)
_GRADIENT_TAKES = Signature(
    **dict([*_TAKES.items()][:-1]),
    slots=(mx.int32, 1),
    full_gradient_distance=(mx.float32, 1),
    **dict([*_GIVES.items()][1:]),
    **{f"d_{name}": declared for name, declared in [*_GIVES.items()][:-1]},
)
_GRADIENT_GIVES = Signature(d_density=_TAKES["density"], d_color=_TAKES["color"])
_RAYS = "ray_start_shape[0] - 1"
_FORWARD = Kernel("composite", "composite_forward", _TAKES, _GIVES, _RAYS)
_GRADIENT = Kernel("composite", "composite_gradient", _GRADIENT_TAKES, _GRADIENT_GIVES, _RAYS)


class Composited(NamedTuple):
    """Color, opacity, depth, and additional values of rays."""

    color: mx.array  # (rays, 3) float32, over the background
    opacity: mx.array  # (rays,) float32, in [0, 1]
    weighted_depth: mx.array
    """(rays,) float32 in scene units, sum of weight * distance. Divide it by `opacity` for the mean
    distance from the camera."""
    extras: Mapping[str, mx.array] = {}  # (rays, channels) float32, sum of weight * value


def composite(
    density: mx.array,
    color: mx.array,
    samples: Samples,
    expected: mx.array | None = None,
    background: mx.array | None = None,
) -> Composited:
    """Composite packed samples along each ray, front to back.

    The optical depth of sample i is density_i width_i. The transmittance T_i in front of sample i
    is exp(-x), where x is the optical depth of all earlier samples on the ray. The color of a ray
    is

        sum_i weight_i color_i + (1 - opacity) background,
        weight_i = T_i (1 - exp(-density_i width_i))

    A ray ends before the first sample with a transmittance below 1e-4. The module docstring
    describes the correction for samples that `thin` has omitted.

    Args:
        density: (slots,) float32, not negative.
        color: (slots, 3) float32.
        samples: The samples. Their distances increase along each ray, and their widths are not
            negative.
        expected: (rays, 3) float32, expected color of each ray. The expected color reduces the
            noise of thinning without changing the mean color. None is the same as black.
        background: (rays, 3) float32, color behind each ray. None is the same as black, so that the
            color is premultiplied by the opacity.

    Returns:
        Color, opacity, and weighted depth of each ray, differentiable with respect to `density` and
        `color`. No gradient flows to the samples, `expected`, or `background`.

    Raises:
        InputError: If an array has a wrong shape or type.

    Examples:
        Two rays share one packed array. According to `ray_start`, ray 0 has slots 0 and 1, and ray
        1 has slot 2. Slot 3 is unused. With a density of ln 2 and a width of 1, every sample
        absorbs half of the light that reaches it. The weights of ray 0 are therefore 1/2 and 1/4,
        and ray 1 has one weight of 1/2.

        >>> from nerfmac.ops.composite import composite
        >>> samples = nerfmac.Samples(
        ...     position=mx.zeros((4, 3)),
        ...     distance=mx.array([1.0, 2.0, 3.0, 0.0]),
        ...     width=mx.array([1.0, 1.0, 1.0, 0.0]),
        ...     ray=mx.array([0, 0, 1, 0]),
        ...     ray_start=mx.array([0, 2, 3]),
        ...     wanted=mx.array([2, 1]),
        ... )
        >>> density = mx.full(4, 0.693147)
        >>> red, green, blue, unused = [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [1.0, 1.0, 1.0]
        >>> rays = composite(density, mx.array([red, green, blue, unused]), samples)
        >>> mx.round(rays.color, 2)
        array([[0.5, 0.25, 0],
               [0, 0, 0.5]], dtype=float32)
        >>> mx.round(rays.opacity, 2)
        array([0.75, 0.5], dtype=float32)
        >>> mx.round(rays.weighted_depth, 2)  # 1 * 1/2 + 2 * 1/4, and 3 * 1/2
        array([1, 1.5], dtype=float32)
    """
    penalty = mx.zeros(density.shape)
    return composite_penalized(density, color, samples, penalty, expected, background)[0]


def composite_penalized(
    density: mx.array,
    color: mx.array,
    samples: Samples,
    penalty: mx.array,
    expected: mx.array | None = None,
    background: mx.array | None = None,
    full_gradient_distance: float = 0.0,
) -> tuple[Composited, mx.array]:
    """Composite packed samples, and sum a weighted penalty along each ray.

    If a loss is linear in the weights, this sum computes it without an additional pass over the
    samples.

    Args:
        density: (slots,) float32, not negative.
        color: (slots, 3) float32.
        samples: The samples, as in `composite`.
        penalty: (slots,) float32, penalty of each sample.
        expected: (rays, 3) float32, as in `composite`.
        background: (rays, 3) float32, as in `composite`.
        full_gradient_distance: As in `scale_gradients`, in scene units. If the distance is not 0,
            the gradients of samples closer to the camera are reduced.

    Returns:
        The result of `composite`, and the sum of weight times penalty for each ray, (rays,)
        float32. Both are differentiable with respect to `density`. No gradient flows to `penalty`.

    Raises:
        InputError: If an array has a wrong shape or type.

    Examples:
        >>> from nerfmac.ops.composite import composite_penalized
        >>> samples = nerfmac.Samples(
        ...     position=mx.zeros((2, 3)),
        ...     distance=mx.array([1.0, 2.0]),
        ...     width=mx.ones(2),
        ...     ray=mx.array([0, 0]),
        ...     ray_start=mx.array([0, 2]),
        ...     wanted=mx.array([2]),
        ... )
        >>> density, gray = mx.full(2, 0.693147), mx.full((2, 3), 0.5)
        >>> _, penalty = composite_penalized(density, gray, samples, mx.array([4.0, 8.0]))
        >>> mx.round(penalty, 2)  # 4 * 1/2 + 8 * 1/4
        array([4], dtype=float32)
    """
    rays = samples.ray_start.shape[0] - 1
    thinning = samples.thinning or Thinning(
        mx.ones(density.shape), mx.zeros(density.shape), mx.zeros(rays)
    )
    inverse_probability, omitted, ray_omitted = thinning
    black = mx.zeros((rays, 3))
    expected = black if expected is None else expected
    background = black if background is None else background
    along = samples.distance, samples.width, samples.ray_start, inverse_probability, omitted
    arrays = density, color, *along, expected, background, penalty, ray_omitted
    _TAKES.check(*arrays, rays=rays)
    color, opacity, depth, ray_penalty, _ = _composite(
        *arrays, full_gradient_distance=full_gradient_distance
    )
    return Composited(color, opacity, depth), ray_penalty


def composite_channels(density: mx.array, values: mx.array, samples: Samples) -> mx.array:
    """Composite any number of channels with the same weights as colors, three at a time.

    Args:
        density: (slots,) float32, not negative.
        values: (slots, channels) float32.
        samples: The samples, as in `composite`.

    Returns:
        Sum of weight times value for each ray and channel, (rays, channels) float32, differentiable
        with respect to `density` and `values`.

    Examples:
        >>> from nerfmac.ops.composite import composite_channels
        >>> samples = nerfmac.Samples(
        ...     position=mx.zeros((2, 3)),
        ...     distance=mx.array([1.0, 2.0]),
        ...     width=mx.ones(2),
        ...     ray=mx.array([0, 0]),
        ...     ray_start=mx.array([0, 2]),
        ...     wanted=mx.array([2]),
        ... )
        >>> values = mx.array([[1.0, 0.0, 4.0, 1.0], [0.0, 1.0, 8.0, 1.0]])
        >>> mx.round(composite_channels(mx.full(2, 0.693147), values, samples), 2)
        array([[0.5, 0.25, 4, 0.75]], dtype=float32)
    """
    channels = values.shape[1]
    padded = mx.pad(values, [(0, 0), (0, -channels % 3)])
    parts = [padded[:, i : i + 3] for i in range(0, channels, 3)]
    seen = [composite(density, mx.contiguous(part), samples).color for part in parts]
    return mx.concatenate(seen, axis=1)[:, :channels]


def composite_extras(
    density: mx.array, extras: Mapping[str, mx.array], samples: Samples
) -> dict[str, mx.array]:
    """Return the result of `composite_channels` for each name in `extras`."""
    return {name: composite_channels(density, each, samples) for name, each in extras.items()}


def sample_weights(density: mx.array, samples: Samples) -> mx.array:
    """Return each sample's weight in the color of its ray.

    The weights are computed in plain MLX on every back end, as a parallel scan with log2(slots)
    passes.

    Args:
        density: (slots,) float32, not negative.
        samples: The samples.

    Returns:
        float32 array (slots,), differentiable with respect to `density`. The weight of unused slots
        is 0.
    """
    thinning = samples.thinning
    scale, omitted = (thinning.inverse_probability, thinning.omitted) if thinning else (None, None)
    return weights_along(density, samples.width, samples.ray_start, scale, omitted).weight


def composite_reference(density, color, *samples, full_gradient_distance=0.0):  # type: ignore[no-untyped-def]
    """Reference implementation in plain MLX, with the arguments and results of the kernel
    `composite_forward`."""
    distances, widths, ray_start, *thinned, expected, background, penalty, ray_omitted = samples
    density, color = (
        scale_gradients(values, mx.stop_gradient(distances), full_gradient_distance)
        for values in (density, color)
    )
    inverse_probability, omitted = thinned
    slots, rays = density.shape[0], ray_start.shape[0] - 1
    if slots == 0 or rays == 0:
        nothing = mx.zeros(rays)
        return mx.stop_gradient(background), nothing, nothing, nothing, mx.zeros((rays, 3))
    along = weights_along(density, widths, ray_start, inverse_probability, omitted)
    expected, background = mx.stop_gradient(expected), mx.stop_gradient(background)
    # Unused slots may contain NaN, and zero times NaN is not zero.
    distances, penalty = (
        mx.where(along.is_visible, mx.stop_gradient(values), 0.0) for values in (distances, penalty)
    )
    color = mx.where(along.is_visible[:, None], color - expected[along.ray], 0.0)
    difference = mx.zeros((rays, 3)).at[along.ray].add(along.weight[:, None] * color)
    depth = mx.zeros(rays).at[along.ray].add(along.weight * distances)
    ray_penalty = mx.zeros(rays).at[along.ray].add(along.weight * penalty)
    visible = mx.where(along.is_visible, along.optical, 0.0)
    opacity = 1.0 - mx.exp(-(ray_omitted + mx.zeros(rays).at[along.ray].add(visible)))
    ray_color = difference + opacity[:, None] * expected + (1.0 - opacity[:, None]) * background
    return ray_color, opacity, depth, ray_penalty, mx.stop_gradient(difference)


class Along(NamedTuple):
    """Optical depths and weights of samples along their rays. Each array has the shape (slots,)."""

    ray: mx.array  # int32, index of the slot's ray; 0 in unused slots
    is_visible: mx.array  # bool
    optical: mx.array  # float32, optical depth; its gradient is multiplied by 1 / p
    before: mx.array  # float32, optical depth of the ray's samples in front of this sample
    weight: mx.array  # float32, 0 if not visible


def weights_along(
    density: mx.array,
    widths: mx.array,
    ray_start: mx.array,
    inverse_probability: mx.array | None = None,
    omitted: mx.array | None = None,
) -> Along:
    """Compute the weights of samples in plain MLX. The arguments are as in `composite` and
    `Thinning`."""
    slots = density.shape[0]
    slot = mx.arange(slots)
    is_alive = slot < ray_start[-1]
    # The index of a slot's ray is the number of rays that end at or before this slot.
    ended = mx.zeros(slots + 1, mx.int32).at[ray_start[1:]].add(1)
    ray = mx.where(is_alive, mx.cumsum(ended)[:slots], 0)
    density, widths = (mx.where(is_alive, values, 0.0) for values in (density, widths))
    tau = density * mx.stop_gradient(widths)
    scale = mx.ones(slots) if inverse_probability is None else inverse_probability
    # The value is tau, but its gradient is that of tau / p.
    optical = mx.stop_gradient(tau) + (tau - mx.stop_gradient(tau)) * scale
    before = sum_before(optical, slot - ray_start[ray])
    transmittance = mx.exp(-(before if omitted is None else omitted + before))
    is_visible = mx.stop_gradient(is_alive & (transmittance >= EARLY_STOP_TRANSMITTANCE))
    weight = mx.where(is_visible, transmittance * (1.0 - mx.exp(-tau)) * scale, 0.0)
    return Along(ray, is_visible, optical, before, weight)


def sum_before(values: mx.array, place: mx.array) -> mx.array:
    """Return, for each slot, the sum of the values in earlier slots of the same ray.

    `place` is the index of each sample along its ray. The sums (slots,) are computed with a
    parallel scan by doubling (Hillis and Steele 1986). A difference of cumulative sums over all
    rays would be simpler, but its rounding error would grow with the number of rays.
    """
    values = _earlier(values, place, 1)
    shift = 1
    while shift < values.shape[0]:
        values = values + _earlier(values, place, shift)
        shift *= 2
    return values


def _earlier(values: mx.array, place: mx.array, shift: int) -> mx.array:
    """Return the value `shift` samples before each slot on the same ray, or 0 at the start of a
    ray."""
    shifted = mx.concatenate([mx.zeros(shift), values[:-shift]])
    return mx.where(place >= shift, shifted, 0.0)


@operation("composite", composite_reference)
def _composite(density, color, *samples, full_gradient_distance):  # type: ignore[no-untyped-def]
    rays = samples[2].shape[0] - 1
    return _FORWARD(density, color, *samples, grid=(rays * simd_width(), 1, 1))


@_composite.vjp
def _composite_vjp(primals, cotangents, outputs, *, full_gradient_distance):  # type: ignore[no-untyped-def]
    density, color, *samples = primals
    *packed, _ray_omitted = samples
    d_density, d_color = _GRADIENT(
        *(density, color, *packed),
        *(mx.array(density.shape, mx.int32), mx.array([full_gradient_distance])),
        *outputs[1:],
        *cotangents[:-1],
        grid=((samples[2].shape[0] - 1) * simd_width(), 1, 1),
    )
    return d_density, d_color, *map(mx.zeros_like, samples)


def scale_gradients(
    values: mx.array, distance: mx.array, full_gradient_distance: float
) -> mx.array:
    """Return `values` (slots,) or (slots, n) unchanged, but with smaller gradients near the camera.

    Many of a camera's rays cross the cells near it, but few other images show these cells.
    Optimization can therefore reduce the error of a single image by adding haze near its camera. To
    prevent this haze, the gradients of samples are multiplied by

        min(1, (distance / full_gradient_distance)^2)

    (Philip and Deschaintre 2023, "Floaters No More", equation 5). `distance` (slots,) is the
    distance from the camera, in scene units like `full_gradient_distance`. If
    `full_gradient_distance` is 0, gradients are not scaled.
    """
    if not full_gradient_distance:
        return values
    return cast(mx.array, _unchanged(values, distance / full_gradient_distance))


@mx.custom_function
def _unchanged(values: mx.array, _relative_distance: mx.array) -> mx.array:
    return values


@_unchanged.vjp
def _unchanged_vjp(primals, cotangent, _output):  # type: ignore[no-untyped-def]
    relative_distance = primals[1]
    factor = mx.minimum(mx.square(relative_distance), 1.0)
    factor = factor.reshape(-1, *[1] * (cotangent.ndim - 1))
    return factor * cotangent, mx.zeros_like(relative_distance)
