"""Tracing of whole rays in one kernel that combines `march`, `hash_encode`, `networks`, and
`composite`.

The kernel processes each ray sample by sample, until the ray leaves the scene or its transmittance
falls below 1/256. The kernel therefore evaluates no samples behind surfaces and stores no samples,
and the host does not wait between operations. The operation has no gradient and is used only for
rendering.

The returned depth is the opacity times the median depth of each ray: the distance at which the
transmittance falls to one half. Thin haze in front of a surface changes the mean distance of the
density, but hardly changes the median. If the transmittance of the whole ray is above one half, the
depth is the same as in `composite`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, current_device, simd_width, working_dtype
from nerfmac.common.constants import (
    BRICK_CELLS,
    NARROW_TRACE_FEATURES,
    OF_DEVICES,
    RENDER_STOP_TRANSMITTANCE,
    WIDE_TRACE_SIMDGROUPS,
)
from nerfmac.geometry import Rays, Samples
from nerfmac.ops.composite import Composited, composite, composite_extras, weights_along
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.march import MarchGeometry, Occupied, count_samples, write_samples
from nerfmac.ops.networks import NetworksShape, networks, stored_weights
from nerfmac.ops.operation import operation
from nerfmac.ops.spherical_harmonics import spherical_harmonics

_NO_EXTRAS: Mapping[str, mx.array] = {}
_TAKES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    bits=(mx.uint32, "words"),
    table=((mx.float32, working_dtype), "entries", "features"),
    density_weights=(mx.float32, "density weights"),
    color_weights=(mx.float32, "color weights"),
)
_GIVES = Signature(
    ray_color=(mx.float32, "rays", 3), opacity=(mx.float32, "rays"), depth=(mx.float32, "rays")
)
_TRACE = Kernel(
    "trace",
    "trace",
    Signature(
        origins=_TAKES["origins"],
        directions=_TAKES["directions"],
        bits=_TAKES["bits"],
        settings=(mx.float32, 7),
        width=(mx.int32, 1),
        table=(working_dtype, "entries", "features"),
        scales=(mx.float32, "levels", 2),
        shapes=(mx.uint32, "numbers"),
        stored=(working_dtype, "size"),
    ),
    _GIVES,
    space="TraceSpace<IN> space[trace_simdgroups(IN)]",
)


@dataclass(frozen=True)
class TraceGeometry:
    """Scene cube, occupancy grid, levels of the hash encoding, and widths of the networks."""

    march: MarchGeometry  # scene cube, grid, and steps
    levels: HashLevels  # levels of the hash encoding
    networks: NetworksShape  # widths of the networks


def trace(
    rays: Rays,
    bits: mx.array,
    geometry: TraceGeometry,
    table: mx.array,
    density_weights: mx.array,
    color_weights: mx.array,
    width: int | None = None,
) -> Composited:
    """Render rays through a field, sampling at the midpoints of the marching intervals.

    Args:
        rays: Origins and unit directions (rays, 3) float32, in scene coordinates.
        bits: Occupancy bits, as in `Occupied`.
        geometry: The scene cube, the grids, and the networks.
        table: Table as in `hash_encode`.
        density_weights, color_weights: Weights as in `networks`.
        width: Image width in pixels if the rays are the pixels of an image in row-major order, or
            None for other rays. With a width, neighboring pixels are traced together, which affects
            only the speed.

    Returns:
        Color, opacity, and depth of each ray.

    Raises:
        InputError: If a shape or type is wrong.
    """
    known = {
        "words": geometry.march.cells // BRICK_CELLS,
        "entries": geometry.levels.entries,
        "density weights": geometry.networks.density.weights,
        "color weights": geometry.networks.color.weights,
    }
    _TAKES.check(*rays[:2], bits, table, density_weights, color_weights, **known)
    return _trace(rays, bits, geometry, table, density_weights, color_weights, width)


def _trace_reference(
    rays: Rays,
    bits: mx.array,
    geometry: TraceGeometry,
    table: mx.array,
    density_weights: mx.array,
    color_weights: mx.array,
    _width: int | None,
) -> Composited:
    # The host waits for the number of samples, because it determines the array shapes.
    along = (*rays[:2], mx.full(rays.origin.shape[:1], 0.5), Occupied(geometry.march, bits))
    counts = count_samples(*along)
    ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(counts)])
    slots = max(int(ray_start[-1]), 1)
    samples = write_samples(*along, slots, ray_start)
    density, color = networks(
        hash_encode(samples.position, table, geometry.levels),
        spherical_harmonics(rays.direction),
        samples.ray,
        samples.used,
        density_weights,
        color_weights,
        geometry.networks,
    )
    return composite_until_opaque(density, color, samples)


def composite_until_opaque(
    density: mx.array,
    color: mx.array,
    samples: Samples,
    extras: Mapping[str, mx.array] = _NO_EXTRAS,
) -> Composited:
    """Composite the samples of whole rays as the kernel `trace` does.

    Args:
        density: (slots,) float32, not negative.
        color: (slots, 3) float32.
        samples: All samples of each ray.
        extras: Additional outputs of the field, (slots, channels) float32.

    Returns:
        Composited rays. If the transmittance of a ray falls below 1/256, the ray ends and is
        opaque. The depth is the median depth times the opacity.
    """
    before = weights_along(density, samples.width, samples.ray_start).before
    density = mx.where(mx.exp(-before) < RENDER_STOP_TRANSMITTANCE, 0.0, density)
    seen, median = composite(density, color, samples), median_distance(density, samples)
    weighted_depth = mx.where(median > 0.0, median * seen.opacity, seen.weighted_depth)
    is_stopped = seen.opacity > 1.0 - RENDER_STOP_TRANSMITTANCE
    scale = mx.where(is_stopped, 1.0 / mx.maximum(seen.opacity, 0.5), 1.0)
    others = composite_extras(density, extras, samples)
    return Composited(
        scale[:, None] * seen.color,
        mx.where(is_stopped, 1.0, seen.opacity),
        scale * weighted_depth,
        {name: scale[:, None] * values for name, values in others.items()},
    )


def median_distance(density: mx.array, samples: Samples) -> mx.array:
    """Return the distance along each ray at which the transmittance falls to one half.

    The density is assumed to be constant within each sample's interval, so the optical depth grows
    linearly within the interval. The kernel `trace` uses the same formula.

    Args:
        density: (slots,) float32 per scene unit, not negative.
        samples: Samples without thinning.

    Returns:
        float32 array (rays,) in scene units. If a ray's transmittance is still above one half
        behind its last sample, the distance is 0.
    """
    rays = samples.ray_start.shape[0] - 1
    if density.shape[0] == 0 or rays == 0:
        return mx.zeros(rays)
    along = weights_along(density, samples.width, samples.ray_start)
    remaining = log(2.0) - along.before
    crosses = along.is_visible & (remaining > 0.0) & (remaining <= along.optical)
    fraction = remaining / mx.maximum(along.optical, 1e-9)
    distance = samples.distance + (fraction - 0.5) * samples.width
    return mx.zeros(rays).at[along.ray].add(mx.where(crosses, distance, 0.0))


@operation("trace", _trace_reference)
def _trace(  # type: ignore[no-untyped-def]
    rays, bits, geometry, table, density_weights, color_weights, width
) -> Composited:
    count, shape = rays.origin.shape[0], geometry.networks
    device = current_device()
    simdgroups, queue = (OF_DEVICES[name][device] for name in ("TILE_SIMDGROUPS", "TRACE_QUEUE"))
    if shape.features > NARROW_TRACE_FEATURES:
        simdgroups = min(simdgroups, WIDE_TRACE_SIMDGROUPS)
    group, rays_of_group = simdgroups * simd_width(), simdgroups * queue
    results = _TRACE(
        *(*rays[:2], bits, geometry.march.settings(), mx.array([width or 0], mx.int32)),
        *(table.astype(working_dtype()), *geometry.levels.arrays()),
        stored_weights(density_weights, color_weights, shape),
        grid=(-(-count // rays_of_group) * group, 1, 1),
        group=group,
        template=[*shape.template, ("FEATURES", table.shape[1])],
    )
    color, opacity, depth = results
    return Composited(color, opacity, depth)
