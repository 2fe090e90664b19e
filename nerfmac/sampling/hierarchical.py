"""`HierarchicalSampler`: evenly spaced coarse samples, and fine samples where density is high.

Each ray's segment inside the scene cube is divided into equal bins, and each bin has one coarse
sample (Mildenhall et al. 2020, equation 2). The sampler owns a coarse field and evaluates it at the
coarse samples. Their compositing weights define a piecewise constant probability density along the
ray. Fine samples are drawn from this distribution with inverse transform sampling (section 5.2).
The result contains both the coarse and the fine samples, sorted by distance. The coarse field is
trained with its own color loss (equation 6).

Neighboring intervals are separated by the midpoint between their samples. The first interval begins
where the ray enters the cube, and the last interval ends where the ray leaves it. In the paper, an
interval extends from one sample to the next, so no interval covers the space in front of the first
sample.
"""

from collections.abc import Mapping
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays
from nerfmac.fields.field import Field, Parameters, ParameterSpec
from nerfmac.geometry import Bounds, Rays, Samples
from nerfmac.ops.composite import composite
from nerfmac.ops.huber import huber
from nerfmac.sampling.ray_batch import RayBatch
from nerfmac.sampling.sampler import Sampled, Sampler

_EVEN = 1e-3  # total weight added evenly along each ray, so that empty rays get fine samples


class _Part(NamedTuple):
    """Segment of each ray inside the scene cube. The fraction 0 refers to the start of the segment,
    and 1 to its end."""

    rays: Rays
    enter: mx.array  # (rays, 1) distance from the ray origin to the start of the segment
    length: mx.array  # (rays, 1) length of the segment; 0 for a ray that misses the cube

    def samples(self, fraction: mx.array) -> Samples:
        """Return samples at the given fractions of each ray's segment.

        `fraction` (rays, samples) contains values in [0, 1] that increase along each ray.
        """
        rays, count = fraction.shape
        distance = self.enter + self.length * fraction
        position = self.rays.origin[:, None] + self.rays.direction[:, None] * distance[..., None]
        return Samples(
            position=position.reshape(-1, 3),
            distance=distance.reshape(-1),
            width=(self.length * _widths(_edges(fraction))).reshape(-1),
            ray=mx.repeat(mx.arange(rays, dtype=mx.int32), count),
            ray_start=mx.arange(rays + 1, dtype=mx.int32) * count,
            wanted=mx.full((rays,), count, mx.int32),
        )


class HierarchicalSampler(Sampler):
    """Sampler with coarse and fine samples. Every ray has the same number of samples.

    If a ray misses the scene cube, its samples have width 0.
    """

    def __init__(
        self, field: Field, bounds: Bounds, near: float, counts: tuple[int, int], delta: float
    ) -> None:
        """Create a sampler.

        Args:
            field: Coarse field, which determines the positions of the fine samples. Its parameter
                names must differ from those of the field that is trained for rendering.
            bounds: The scene cube.
            near: Minimum distance of samples from the ray origin, in scene units.
            counts: Number of evenly spaced samples per ray, and number of additional samples per
                ray, drawn where the density of the coarse field is high.
            delta: Threshold of the Huber loss that trains the coarse field.
        """
        self._field, self._delta = field, delta
        self._bounds, self._near = bounds, near
        self._coarse, self._fine = counts

    @property
    def parameter_specs(self) -> Mapping[str, ParameterSpec]:
        """Declarations of the parameters of the coarse field."""
        return self._field.parameter_specs

    def init_parameters(self, key: mx.array) -> Parameters:
        """Return initial parameters of the coarse field."""
        return self._field.init(key)

    @property
    def most_samples(self) -> int:
        """Number of samples on every ray."""
        return self._coarse + self._fine

    @property
    def draws(self) -> int:
        """Number of random numbers per ray that `sample` requires: one for each sample."""
        return self._coarse + self._fine

    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """Return coarse and fine samples, and the rays composited with the coarse field."""
        part = self._part(Rays(*map(mx.stop_gradient, rays[:2])))
        even = stratified(drawn[:, : self._coarse])
        coarse = part.samples(even)
        density, color, _ = self._field(parameters, coarse, rays)
        seen = composite(density, color, coarse)
        weight = _weights((mx.stop_gradient(density) * coarse.width).reshape(even.shape))
        fine = invert(_edges(even), weight, stratified(drawn[:, self._coarse :]))
        union = mx.sort(mx.concatenate([even, fine], axis=1), axis=1)
        return Sampled(part.samples(union), seen)

    def loss(self, sampled: Sampled, rays: RayBatch, target: mx.array) -> mx.array:
        """Return the Huber loss of the colors of the coarse field, (rays, 3)."""
        return huber(rays.over_background(sampled.learned).color, target, self._delta)

    def _part(self, rays: Rays) -> _Part:
        enter, leave = self._bounds.crossing(rays.origin, rays.direction, self._near)
        # If a ray misses the cube, its samples are placed at `near`, because a field may overflow
        # far from the cube.
        enter, leave = (mx.where(leave > enter, end, self._near) for end in (enter, leave))
        return _Part(rays, enter[:, None], (leave - enter)[:, None])


def stratified(drawn: mx.array) -> mx.array:
    """Divide [0, 1] into n equal bins, and return one number (rays, n) in each bin.

    `drawn` (rays, n) contains each number's relative position in its bin, from 0 to 1.
    """
    count = drawn.shape[1]
    return (mx.arange(count) + drawn) / count


def invert(edges: mx.array, weight: mx.array, fraction: mx.array) -> mx.array:
    """Draw positions along rays with inverse transform sampling.

    The probability density is constant within each interval. A small weight is added evenly along
    the ray, so that rays without density also have fine samples.

    Args:
        edges: Edges (rays, intervals + 1) of the intervals, strictly increasing from 0 to 1.
        weight: Weight (rays, intervals) of each interval, not negative.
        fraction: Fractions (rays, n) of each ray's total weight, in [0, 1].

    Returns:
        Positions (rays, n) in [0, 1] where the cumulative weight reaches each fraction. Apart from
        rounding errors, positions increase with `fraction`.
    """
    widths = _widths(edges)
    weight = weight + _EVEN * widths
    ends = mx.cumsum(weight, axis=1)
    wanted = fraction * ends[:, -1:]
    interval = mx.sum(ends[:, None, :-1] <= wanted[..., None], axis=2)
    begin, low, here, width = (
        mx.take_along_axis(values, interval, axis=1)
        for values in (ends - weight, edges, weight, widths)
    )
    inside = mx.clip((wanted - begin) / here, 0.0, 1.0)  # rounding errors may exceed the interval
    return low + inside * width


def _edges(place: mx.array) -> mx.array:
    """Return the edges (rays, n + 1) of the intervals of samples at the fractions `place` (rays,
    n)."""
    zero = mx.zeros_like(place[:, :1])
    return mx.concatenate([zero, 0.5 * (place[:, 1:] + place[:, :-1]), zero + 1.0], axis=1)


def _widths(edges: mx.array) -> mx.array:
    return edges[:, 1:] - edges[:, :-1]


def _weights(thickness: mx.array) -> mx.array:
    """Return the compositing weights (rays, n) of samples with the optical `thickness` (rays,
    n)."""
    before = mx.cumsum(thickness, axis=1, inclusive=False)
    return mx.exp(-before) * (1.0 - mx.exp(-thickness))
