"""Rendering in batches of samples: for fields and machines without a kernel that traces rays.

First every ray's samples in occupied space are counted; rays without any are background. Then come
rounds. In each, the rays whose light is not yet used up evaluate their next few samples, twice as
many as in the round before. So hardly any sample behind a surface is evaluated. Samples are packed
into batches of a fixed size: one compiled function serves pictures of any size, and memory stays
bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import EARLY_STOP_TRANSMITTANCE as EARLY_STOP
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied, count_samples, write_samples

Indices = npt.NDArray[np.signedinteger]

FIRST_ROUND = 8
"""Most samples that a ray evaluates in the first round."""


class SampleBatches:
    """Renders rays: `shade` evaluates their samples in `occupied` space. Compiled once."""

    def __init__(
        self,
        shade: Callable[[Samples, mx.array], Composited],
        occupied: Occupied,
        slots: int,
    ) -> None:
        """`slots`: most samples of a batch."""
        self._slots = max(slots, FIRST_ROUND)
        self._rays = self._slots // FIRST_ROUND  # most rays of a batch

        def count(origin: mx.array, direction: mx.array) -> mx.array:
            # A picture's samples stand in the middle of their intervals.
            jitter = mx.full(origin.shape[:1], 0.5)
            return count_samples(origin, direction, jitter, occupied)

        def batch(
            origin: mx.array, direction: mx.array, take: mx.array, skip: mx.array
        ) -> Composited:
            ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(take)])
            jitter = mx.full(take.shape, 0.5)
            write = partial(write_samples, origin, direction, jitter, occupied)
            return shade(write(self._slots, ray_start, skip), direction)

        self._count: Callable[..., mx.array] = mx.compile(count)
        self._batch: Callable[..., Composited] = mx.compile(batch)

    def __call__(self, rays: Rays, width: int = 0) -> Composited:
        """What `rays` see; their order does not matter. Waits for the device after every batch."""
        left = np.array(self._count(rays.origin, rays.direction))  # samples not yet evaluated
        done = np.zeros_like(left)
        colour = np.zeros((len(left), 3), np.float32)
        transmittance = np.ones(len(left), np.float32)
        depth = np.zeros(len(left), np.float32)
        most = FIRST_ROUND
        while len(alive := np.flatnonzero((left > 0) & (transmittance >= EARLY_STOP))):
            take = np.minimum(left[alive], min(most, self._slots))
            for some in self._batches(take):
                chosen = alive[some]
                seen = self._see(rays, chosen, take[some], done[chosen])
                colour[chosen] += transmittance[chosen, None] * seen[0]
                depth[chosen] += transmittance[chosen] * seen[2]
                transmittance[chosen] *= 1.0 - seen[1]
            left[alive] -= take
            done[alive] += take
            most *= 2
        return Composited(mx.array(colour), mx.array(1.0 - transmittance), mx.array(depth))

    def _see(
        self, rays: Rays, chosen: Indices, take: Indices, skip: Indices
    ) -> list[npt.NDArray[np.float32]]:
        """Colour, opacity and depth of the chosen rays' next `take` samples after `skip`."""
        # The padding is ray 0, repeated, with no samples.
        padding = (0, self._rays - len(chosen))
        some, counts, skipped = (
            mx.array(np.pad(each, padding).astype(np.int32)) for each in (chosen, take, skip)
        )
        seen = self._batch(rays.origin[some], rays.direction[some], counts, skipped)
        mx.eval(seen)
        return [np.array(part)[: len(chosen)] for part in seen]

    def _batches(self, take: Indices) -> Iterator[slice]:
        """Ranges of rays whose samples fit a batch."""
        ends = np.cumsum(take, dtype=np.int64)
        begin, used = 0, 0
        while begin < len(take):
            end = int(np.searchsorted(ends, used + self._slots, side="right"))
            end = min(end, begin + self._rays)
            yield slice(begin, end)
            begin, used = end, int(ends[end - 1])
