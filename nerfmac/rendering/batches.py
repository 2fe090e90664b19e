"""Rendering in batches of a fixed size, which is used if no kernel can trace whole rays.

With a fixed batch size, a single compiled function renders images of any size, and memory use is
bounded. `SampleBatches` skips empty space and most samples behind surfaces. `RayBatches` evaluates
every sample and supports samplers without an occupancy grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import Arrays, to_numpy
from nerfmac.common.constants import RENDER_STOP_TRANSMITTANCE
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied, count_samples, write_samples
from nerfmac.ops.median_depth import with_median
from nerfmac.ops.trace import opaque_if_stopped
from nerfmac.sampling.sampler import Sampler

Indices = npt.NDArray[np.signedinteger]
Floats = npt.NDArray[np.float32]
Shade = Callable[[Samples, mx.array, mx.array], tuple[Composited, mx.array]]
"""Function that returns composited rays and their median distances (rays,), given samples, ray
directions (rays, 3), and the transmittances (rays,) in front of the samples."""

NO_EXTRAS: Mapping[str, int] = {}
FIRST_ROUND = 8
"""Maximum number of samples per ray that `SampleBatches` evaluates in the first round."""

MIDDLE = 0.5
"""Value that replaces all random numbers during rendering, so that samples are at the midpoints of
their intervals."""


class RayBatches:
    """Renderer that evaluates all samples of a batch of rays."""

    def __init__(
        self, shade: Shade, sampler: Sampler, parameters: Arrays, sampling: Arrays, slots: int
    ) -> None:
        """Create a renderer that evaluates at most `slots` samples at a time. `sampling` is the
        state of the sampler."""
        self._rays = max(slots // sampler.most_samples, 1)

        def batch(origin: mx.array, direction: mx.array) -> Composited:
            middle = mx.full((self._rays, sampler.draws), MIDDLE)
            sampled = sampler.sample(parameters, sampling, Rays(origin, direction), middle)
            seen = shade(sampled.samples, direction, mx.ones(len(direction)))
            return with_median(*seen)

        self._batch: Callable[[mx.array, mx.array], Composited] = mx.compile(batch)

    def __call__(self, rays: Rays, width: int | None = None) -> Composited:
        """Return color, opacity, and depth of `rays`, in any order. `width` is not used."""
        seen = []
        for first in range(0, len(rays.origin), self._rays):
            batch = [values[first : first + self._rays] for values in rays]
            missing = self._rays - len(batch[0])
            if missing:  # all batches have the same size: the last one is padded with its first ray
                batch = [mx.concatenate([v, mx.repeat(v[:1], missing, 0)]) for v in batch]
            seen.append(Composited(*self._batch(*batch)))
            mx.eval(seen[-1])  # separately, because all batches together need too much memory
        whole, count = joined(seen), len(rays.origin)
        extras = {name: values[:count] for name, values in whole.extras.items()}
        return Composited(whole.color[:count], whole.opacity[:count], whole.depth[:count], extras)


def joined(parts: Sequence[Composited]) -> Composited:
    """Concatenate the rays of `parts`, which have the same extras."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].extras
    extras = {name: mx.concatenate([part.extras[name] for part in parts]) for name in names}
    return Composited(
        mx.concatenate([part.color for part in parts]),
        mx.concatenate([part.opacity for part in parts]),
        mx.concatenate([part.depth for part in parts]),
        extras,
    )


class SampleBatches:
    """Renders rays in rounds, with the next few samples of each ray that is not yet opaque.

    First, the samples in occupied cells are counted. Rays without samples show the background. The
    number of samples per ray doubles with each round, so few samples behind surfaces are evaluated.
    """

    def __init__(
        self, shade: Shade, occupied: Occupied, slots: int, extras: Mapping[str, int] = NO_EXTRAS
    ) -> None:
        """Create a renderer that evaluates at most `slots` samples in a batch. `extras` is
        `Field.extras`."""
        self._extras = extras
        self._slots = max(slots, FIRST_ROUND)
        self._rays = self._slots // FIRST_ROUND  # maximum number of rays in a batch

        def count(origin: mx.array, direction: mx.array) -> mx.array:
            jitter = mx.full(origin.shape[:1], MIDDLE)
            return count_samples(origin, direction, jitter, occupied)

        def batch(
            origin: mx.array,
            direction: mx.array,
            reaching: mx.array,
            take: mx.array,
            skip: mx.array,
        ) -> tuple[Composited, mx.array]:
            ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(take)])
            jitter = mx.full(take.shape, MIDDLE)
            write = partial(write_samples, origin, direction, jitter, occupied)
            return shade(write(self._slots, ray_start, skip), direction, reaching)

        self._count: Callable[..., mx.array] = mx.compile(count)
        self._batch: Callable[..., tuple[Composited, mx.array]] = mx.compile(batch)

    def __call__(self, rays: Rays, width: int | None = None) -> Composited:
        """Return color, opacity, and depth of `rays`, in any order. `width` is not used."""
        left = to_numpy(self._count(rays.origin, rays.direction))  # samples not yet evaluated
        done = np.zeros_like(left)
        transmittance = np.ones(len(left), np.float32)
        # Color, depth, and extras are sums over the rounds.
        sums = np.zeros((len(left), 3 + 1 + sum(self._extras.values())), np.float32)
        median = np.zeros(len(left), np.float32)
        most = FIRST_ROUND
        while len(
            alive := np.flatnonzero((left > 0) & (transmittance >= RENDER_STOP_TRANSMITTANCE))
        ):
            take = np.minimum(left[alive], min(most, self._slots))
            for batch in self._batches(take):
                chosen = alive[batch]
                reached = transmittance[chosen], take[batch], done[chosen]
                values, opacity, crossing = self._see(rays, chosen, *reached)
                sums[chosen] += transmittance[chosen, None] * values
                median[chosen] += crossing  # nonzero in at most one round
                transmittance[chosen] *= 1.0 - opacity
            left[alive] -= take
            done[alive] += take
            most *= 2
        ends = np.cumsum([3, 1, *self._extras.values()])
        color, depth, *extras = np.split(sums, ends[:-1], axis=1)
        whole = Composited(
            *(mx.array(color), mx.array(1.0 - transmittance), mx.array(depth[:, 0])),
            dict(zip(self._extras, map(mx.array, extras), strict=True)),
        )
        return opaque_if_stopped(with_median(whole, mx.array(median)))

    def _see(
        self, rays: Rays, chosen: Indices, reaching: Floats, take: Indices, skip: Indices
    ) -> tuple[Floats, Floats, Floats]:
        """Composite the next `take` (n,) samples of the `chosen` rays, given by their indices (n,).

        `reaching` (n,) is the transmittance in front of the samples, and `skip` (n,) the number of
        samples that earlier rounds have evaluated. Returns the color, depth, and extras of the
        samples (n, values), their opacity (n,), and the distance (n,) at which the transmittance
        falls to one half, or 0 if the transmittance falls to one half elsewhere.
        """
        padding = (0, self._rays - len(chosen))  # padding repeats ray 0, without samples
        ray, take_padded, skip_padded = (
            mx.array(np.pad(values, padding).astype(np.int32)) for values in (chosen, take, skip)
        )
        transmittance = mx.array(np.pad(reaching, padding))
        along = rays.origin[ray], rays.direction[ray], transmittance, take_padded, skip_padded
        (color, opacity, depth, extras), median = self._batch(*along)
        others = [extras[name] for name in self._extras]
        values = mx.concatenate([color, depth[:, None], *others], axis=1)
        mx.eval(values, opacity, median)
        count = len(chosen)
        return np.array(values)[:count], np.array(opacity)[:count], np.array(median)[:count]

    def _batches(self, take: Indices) -> Iterator[slice]:
        """Yield ranges of rays. The samples of a range, `take` for each ray, fit in the slots."""
        ends = np.cumsum(take, dtype=np.int64)
        begin, used = 0, 0
        while begin < len(take):
            end = int(np.searchsorted(ends, used + self._slots, side="right"))
            end = min(end, begin + self._rays)
            yield slice(begin, end)
            begin, used = end, int(ends[end - 1])
