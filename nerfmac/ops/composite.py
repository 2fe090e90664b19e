"""Alpha compositing of packed samples along rays.

    weight_i = T_i (1 - exp(-density_i width_i)),   T_i = exp(-sum_{j<i} density_j width_j)

(Mildenhall et al. 2020, equation 3.) A ray ends before the first sample with T_i below 1e-4.
Samples of ray r are rows ray_start[r] : ray_start[r + 1]; rows past the last ray's belong to no
ray. Density is per scene unit, width and distance in scene units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, runs_kernel, simd_width
from nerfmac.ops.signature import Signature

EARLY_STOP_TRANSMITTANCE = 1e-4
"""Transmittance below which a ray ends; the same number as in `kernels/light.h`."""

_TAKES = Signature(
    density=(mx.float32, "slots"),
    colour=(mx.float32, "slots", 3),
    distances=(mx.float32, "slots"),
    widths=(mx.float32, "slots"),
    ray_start=(mx.int32, "rays + 1"),
)
_GIVES = Signature(
    ray_colour=(mx.float32, "rays", 3), opacity=(mx.float32, "rays"), depth=(mx.float32, "rays")
)
_FORWARD = Kernel(
    "composite", "composite_forward", _TAKES.names, _GIVES.names, rows="ray_start_shape[0] - 1"
)
_GRADIENT = Kernel(
    "composite",
    "composite_gradient",
    inputs=(*_TAKES.names, "slots", *_GIVES.names, "d_ray_colour", "d_opacity", "d_depth"),
    outputs=("d_density", "d_colour"),
    rows="ray_start_shape[0] - 1",
)


class Composited(NamedTuple):
    """Colour, opacity and depth of rays in front of a black background."""

    colour: mx.array  # (rays, 3) float32, premultiplied by opacity
    opacity: mx.array  # (rays,) float32, in [0, 1]
    depth: mx.array  # (rays,) float32, sum of weight * distance; divide by opacity for a distance


def composite(
    density: mx.array, colour: mx.array, distances: mx.array, widths: mx.array, ray_start: mx.array
) -> Composited:
    """Composite packed samples front to back; see the module's docstring.

    Args:
        density: (slots,) float32, not negative.
        colour: (slots, 3) float32.
        distances: (slots,) float32; increasing along each ray.
        widths: (slots,) float32, not negative.
        ray_start: (rays + 1,) int32.

    Returns:
        `Composited`, differentiable in `density` and `colour`; no gradient flows to the others.

    Raises:
        InputError: a wrong shape or type.
    """
    _TAKES.check(density, colour, distances, widths, ray_start)
    run: Any = _composite if runs_kernel("composite") else composite_reference
    return Composited(*run(density, colour, distances, widths, ray_start))


def sample_weights(density: mx.array, widths: mx.array, ray_start: mx.array) -> mx.array:
    """Weight of each sample, 0 for slots of no ray: (slots,) float32, differentiable in `density`.

    Arguments as in `composite`. Plain MLX on every back end, by a scan of log2(slots) passes.
    """
    return light_along(density, widths, ray_start)[2]


def composite_reference(
    density: mx.array, colour: mx.array, distances: mx.array, widths: mx.array, ray_start: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Plain-MLX reference of `composite`; returns the arrays of a `Composited`."""
    slots, rays = density.shape[0], ray_start.shape[0] - 1
    if slots == 0 or rays == 0:
        return mx.zeros((rays, 3)), mx.zeros(rays), mx.zeros(rays)
    ray, is_visible, weight = light_along(density, widths, ray_start)
    # Slots of no ray may hold NaN, and zero times NaN is not zero.
    distances = mx.where(is_visible, distances, 0.0)
    colour = mx.where(is_visible[:, None], colour, 0.0)
    ray_colour = mx.zeros((rays, 3)).at[ray].add(weight[:, None] * colour)
    opacity = mx.zeros(rays).at[ray].add(weight)
    depth = mx.zeros(rays).at[ray].add(weight * mx.stop_gradient(distances))
    return ray_colour, opacity, depth


def light_along(
    density: mx.array, widths: mx.array, ray_start: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Three arrays (slots,): the slot's ray (0 without one), whether it is visible, its weight.

    Plain MLX; arguments as in `composite`.
    """
    slots = density.shape[0]
    slot = mx.arange(slots)
    is_alive = slot < ray_start[-1]
    # The number of rays that end at or before a slot is the index of the slot's ray.
    ended = mx.zeros(slots + 1, mx.int32).at[ray_start[1:]].add(1)
    ray = mx.where(is_alive, mx.cumsum(ended)[:slots], 0)
    density, widths = (mx.where(is_alive, values, 0.0) for values in (density, widths))
    optical = density * mx.stop_gradient(widths)
    transmittance = mx.exp(-_sum_before(optical, slot - ray_start[ray]))
    is_visible = mx.stop_gradient(is_alive & (transmittance >= EARLY_STOP_TRANSMITTANCE))
    weight = mx.where(is_visible, transmittance * (1.0 - mx.exp(-optical)), 0.0)
    return ray, is_visible, weight


def _sum_before(values: mx.array, place: mx.array) -> mx.array:
    """Sum (slots,) of the values before each slot on its ray; `place` counts samples along a ray.

    A parallel scan by doubling (Hillis and Steele 1986). A difference of sums over all rays would
    be simpler, but its rounding error grows with the number of rays.
    """
    values = _earlier(values, place, 1)
    shift = 1
    while shift < values.shape[0]:
        values = values + _earlier(values, place, shift)
        shift *= 2
    return values


def _earlier(values: mx.array, place: mx.array, shift: int) -> mx.array:
    """The value `shift` samples before each slot on its ray; zero where there is none."""
    shifted = mx.concatenate([mx.zeros(shift), values[:-shift]])
    return mx.where(place >= shift, shifted, 0.0)


@mx.custom_function
def _composite(density, colour, distances, widths, ray_start):  # type: ignore[no-untyped-def]
    rays = ray_start.shape[0] - 1
    return tuple(
        _FORWARD(
            density,
            colour,
            distances,
            widths,
            ray_start,
            grid=(rays * simd_width(), 1, 1),
            **_GIVES.outputs(rays=rays),
        )
    )


@_composite.vjp
def _composite_vjp(primals, cotangents, outputs):  # type: ignore[no-untyped-def]
    density, colour, distances, widths, ray_start = primals
    d_density, d_colour = _GRADIENT(
        *primals,
        mx.array(density.shape, mx.int32),
        *outputs,
        *cotangents,
        grid=((ray_start.shape[0] - 1) * simd_width(), 1, 1),
        output_shapes=[density.shape, colour.shape],
        output_dtypes=[mx.float32] * 2,
    )
    return d_density, d_colour, *(mx.zeros_like(a) for a in (distances, widths, ray_start))
