"""`HierarchicalSampler`: samples spread evenly along a ray, then more where they found matter.

A ray's part inside the scene's cube is cut into equal bins, with one coarse sample in each
(Mildenhall et al. 2020, equation 2). A coarser field, the proposal, is evaluated at these samples.
Each then has a weight: how much it adds to the ray's colour. The weights, each spread evenly over
its sample's interval, are a probability density along the ray. The fine samples are drawn from
this density by inverting its cumulative sum (section 5.2). The ray's samples are the coarse and the
fine ones together, sorted by distance.

A sample's interval reaches to the midpoints between the sample and its neighbours. The first
interval begins where the ray enters the cube, and the last ends where the ray leaves. So the
widths add up to the ray's part inside the cube. (In the paper an interval reaches from its sample
to the next one, and no interval covers what is before the first sample.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite
from nerfmac.sampling.sampler import Sampled, Sampler

Proposal = Callable[[Arrays, Samples, mx.array], tuple[mx.array, mx.array]]
"""A field's density and colour of samples, as `Field.__call__` gives them."""

_EVEN = 1e-3  # weight spread evenly over each ray, so that empty rays too have fine samples


class _Part(NamedTuple):
    """The parts of rays inside the cube. Along each part a place is a number from 0 to 1."""

    rays: Rays
    enter: mx.array  # (rays, 1) distance of place 0
    length: mx.array  # (rays, 1) of the part; 0 for a ray that misses the cube

    def samples(self, place: mx.array) -> Samples:
        """One sample at each `place` (rays, samples), which must increase along a ray."""
        rays, count = place.shape
        distance = self.enter + self.length * place
        position = self.rays.origin[:, None] + self.rays.direction[:, None] * distance[..., None]
        return Samples(
            position=position.reshape(-1, 3),
            distance=distance.reshape(-1),
            width=(self.length * _widths(_edges(place))).reshape(-1),
            ray=mx.repeat(mx.arange(rays, dtype=mx.int32), count),
            ray_start=mx.arange(rays + 1, dtype=mx.int32) * count,
            wanted=mx.full((rays,), count, mx.int32),
        )


class HierarchicalSampler(Sampler):
    """Gives all rays equally many samples; on a ray that misses the cube they have no width."""

    def __init__(
        self, proposal: Proposal, bounds: Bounds, near: float, coarse: int, fine: int
    ) -> None:
        """Take `coarse` evenly spread samples on each ray, and `fine` ones drawn by their weights.

        `proposal` is evaluated at the coarse samples. No
        sample is nearer to its ray's origin than `near`. Lengths are in scene units.
        """
        self._proposal = proposal
        self._bounds, self._near = bounds, near
        self._coarse, self._fine = coarse, fine

    @property
    def most_samples(self) -> int:
        """Samples of each ray."""
        return self._coarse + self._fine

    @property
    def draws(self) -> int:
        """Random numbers that a ray takes: one for each sample."""
        return self._coarse + self._fine

    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """The samples of `rays`, and what the rays see of the proposal; see `Sampler.sample`."""
        part = self._part(Rays(*map(mx.stop_gradient, rays)))
        place = stratified(drawn[:, : self._coarse])
        coarse = part.samples(place)
        density, colour = self._proposal(parameters, coarse, rays.direction)
        seen = composite(density, colour, coarse.distance, coarse.width, coarse.ray_start)
        weight = _weights((mx.stop_gradient(density) * coarse.width).reshape(place.shape))
        fine = invert(_edges(place), weight, stratified(drawn[:, self._coarse :]))
        union = mx.sort(mx.concatenate([place, fine], axis=1), axis=1)
        return Sampled(part.samples(union), (seen,))

    def _part(self, rays: Rays) -> _Part:
        enter, leave = self._bounds.crossing(rays.origin, rays.direction, self._near)
        # A ray that misses has its samples at `near`: far from the cube a field may overflow.
        enter, leave = (mx.where(leave > enter, each, self._near) for each in (enter, leave))
        return _Part(rays, enter[:, None], (leave - enter)[:, None])


def stratified(drawn: mx.array) -> mx.array:
    """(rays, n) numbers in [0, 1], one in each of n equal bins, at the fraction `drawn` of it."""
    count = drawn.shape[1]
    return (mx.arange(count) + drawn) / count


def invert(edges: mx.array, weight: mx.array, fraction: mx.array) -> mx.array:
    """The places (rays, n) before which lies a `fraction` (rays, n), in [0, 1], of a ray's weight.

    The `edges` (rays, intervals + 1) of the intervals strictly increase from 0 to 1. Each `weight`
    (rays, intervals), not negative, is spread evenly over its interval; a little more weight is
    spread over the whole ray. But for rounding, the places increase where the fractions do.
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
    inside = mx.clip((wanted - begin) / here, 0.0, 1.0)  # rounding may go past the ends
    return low + inside * width


def _edges(place: mx.array) -> mx.array:
    """(rays, n + 1) edges of the intervals of samples at `place` (rays, n)."""
    zero = mx.zeros_like(place[:, :1])
    return mx.concatenate([zero, 0.5 * (place[:, 1:] + place[:, :-1]), zero + 1.0], axis=1)


def _widths(edges: mx.array) -> mx.array:
    return edges[:, 1:] - edges[:, :-1]


def _weights(thickness: mx.array) -> mx.array:
    """(rays, n) how much each sample adds to its ray's colour, by its optical `thickness`."""
    before = mx.cumsum(thickness, axis=1, inclusive=False)
    return mx.exp(-before) * (1.0 - mx.exp(-thickness))
