"""Rendering in batches of rays: for samplers that know of no empty space.

A batch has as many rays as there is room for their samples. Every sample is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from nerfmac.backend import Arrays
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.sampling.sampler import Sampler

MIDDLE = 0.5
"""A picture's value for every random number: it puts samples in the middle of their intervals."""


class RayBatches:
    """Renders rays: `sampler` gives their samples, `shade` evaluates these. Compiled once."""

    def __init__(
        self,
        shade: Callable[[Samples, mx.array], Composited],
        sampler: Sampler,
        parameters: Arrays,
        sampling: Arrays,
        slots: int,
    ) -> None:
        """`slots`: most samples of a batch; `sampling`: the sampler's state."""
        self._rays = max(slots // sampler.most_samples, 1)

        def batch(origin: mx.array, direction: mx.array) -> Composited:
            middle = mx.full((self._rays, sampler.draws), MIDDLE)
            sampled = sampler.sample(parameters, sampling, Rays(origin, direction), middle)
            return shade(sampled.samples, direction)

        self._batch: Callable[[mx.array, mx.array], Composited] = mx.compile(batch)

    def __call__(self, rays: Rays, width: int = 0) -> Composited:
        """What `rays` see; their order does not matter."""
        seen = []
        for first in range(0, len(rays.origin), self._rays):
            batch = [part[first : first + self._rays] for part in rays]
            missing = self._rays - len(batch[0])
            if missing:  # all batches have one size: the last one repeats its first ray
                batch = [mx.concatenate([part, mx.repeat(part[:1], missing, 0)]) for part in batch]
            seen.append(Composited(*self._batch(*batch)))
            mx.eval(seen[-1])  # batch by batch: all of them together would not fit in memory
        parts = (mx.concatenate(list(each))[: len(rays.origin)] for each in zip(*seen, strict=True))
        return Composited(*parts)
