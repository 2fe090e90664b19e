"""Rendering in batches of a fixed size, which is used if no kernel can trace whole rays.

With a fixed batch size, a single compiled function renders images of any size, and memory use is
bounded. `SampleBatches` evaluates only samples in occupied cells. `RayBatches` supports samplers
without an occupancy grid.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import Arrays, to_numpy
from nerfmac.geometry import Rays, Samples
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied, count_samples, write_samples
from nerfmac.sampling.sampler import Sampler

Indices = npt.NDArray[np.signedinteger]
Shade = Callable[[Samples, Rays], Composited]
"""Function that returns composited rays, given their samples."""

NO_EXTRAS: Mapping[str, int] = {}
SAMPLES_PER_RAY = 8
"""Number of slots of `SampleBatches` for each ray in a batch."""

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

        def batch(*arrays: mx.array) -> Composited:
            middle = mx.full((self._rays, sampler.draws), MIDDLE)
            rays = Rays(*arrays)
            return shade(sampler.sample(parameters, sampling, rays, middle).samples, rays)

        self._batch: Callable[..., Composited] = mx.compile(batch)

    def __call__(self, rays: Rays, width: int | None = None) -> Composited:
        """Return color, opacity, and depth of `rays`, in any order. `width` is not used."""
        seen, count, rays = [], len(rays.origin), rays.complete
        for first in range(0, count, self._rays):
            # All batches have the same size: the last one is padded with the last ray.
            index = mx.minimum(mx.arange(first, first + self._rays), count - 1)
            seen.append(Composited(*self._batch(*rays.at(index))))
            mx.eval(seen[-1])  # separately, because all batches together need too much memory
        whole = joined(seen)
        extras = {name: values[:count] for name, values in whole.extras.items()}
        color, opacity, depth = (values[:count] for values in whole[:3])
        return Composited(color, opacity, depth, extras)


class SeenImage(NamedTuple):
    """Pixels of an image on the device, over the background, in row-major order."""

    color: mx.array  # (pixels, 3) float32, sRGB in [0, 1]
    opacity: mx.array  # (pixels,) float32, in [0, 1]
    depth: mx.array  # (pixels,) float32 in scene units, as in `Rendered`
    extras: Mapping[str, mx.array] = {}  # (pixels, channels) float32


Seen = TypeVar("Seen", Composited, SeenImage)


def joined(parts: Sequence[Seen]) -> Seen:
    """Concatenate the rays of `parts`, which have the same extras."""
    first = parts[0]
    if len(parts) == 1:
        return first
    *arrays, _ = zip(*parts, strict=True)
    color, opacity, depth = (mx.concatenate(list(values)) for values in arrays)
    extras = {name: mx.concatenate([part.extras[name] for part in parts]) for name in first.extras}
    return type(first)(color, opacity, depth, extras)


class SampleBatches:
    """Renderer that evaluates the samples in occupied cells, for as many rays at a time as fit in
    the slots. Rays without samples show the background."""

    def __init__(
        self, shade: Shade, occupied: Occupied, slots: int, extras: Mapping[str, int] = NO_EXTRAS
    ) -> None:
        """Create a renderer that evaluates about `slots` samples in a batch. `extras` is
        `Field.extras`."""
        self._extras = extras
        self._slots = max(slots, occupied.geometry.most_intervals)
        self._rays = self._slots // SAMPLES_PER_RAY  # maximum number of rays in a batch

        def batch(counts: mx.array, *arrays: mx.array) -> mx.array:
            rays = Rays(*arrays)
            ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(counts)])
            jitter = mx.full(counts.shape, MIDDLE)
            samples = write_samples(*rays[:2], jitter, occupied, self._slots, ray_start)
            color, opacity, depth, others = shade(samples, rays)
            values = [color, opacity[:, None], depth[:, None], *(others[name] for name in extras)]
            return mx.concatenate(values, axis=1)

        def count(origin: mx.array, direction: mx.array) -> mx.array:
            return count_samples(origin, direction, mx.full(origin.shape[:1], MIDDLE), occupied)

        self._count: Callable[..., mx.array] = mx.compile(count)
        self._batch: Callable[..., mx.array] = mx.compile(batch)

    def __call__(self, rays: Rays, width: int | None = None) -> Composited:
        """Return color, opacity, and depth of `rays`, in any order. `width` is not used."""
        counts, rays = to_numpy(self._count(*rays[:2])), rays.complete
        sizes = [3, 1, 1, *self._extras.values()]
        values = np.zeros((len(counts), sum(sizes)), np.float32)
        hit = np.flatnonzero(counts)
        for batch in self._batches(counts[hit]):
            chosen = hit[batch]
            padding = (0, self._rays - len(chosen))  # padding repeats ray 0, without samples
            index, taken = (mx.array(np.pad(x, padding)) for x in (chosen, counts[chosen]))
            seen = self._batch(taken, *rays.at(index))
            values[chosen] = to_numpy(seen)[: len(chosen)]
        color, opacity, depth, *extras = map(mx.array, np.split(values, np.cumsum(sizes)[:-1], 1))
        others = dict(zip(self._extras, extras, strict=True))
        return Composited(color, opacity[:, 0], depth[:, 0], others)

    def _batches(self, counts: Indices) -> Iterator[slice]:
        """Yield ranges of rays. The samples of a range, `counts` for each ray, fit in the slots."""
        ends = np.cumsum(counts, dtype=np.int64)
        begin, used = 0, 0
        while begin < len(counts):
            end = int(np.searchsorted(ends, used + self._slots, side="right"))
            end = min(end, begin + self._rays)
            yield slice(begin, end)
            begin, used = end, int(ends[end - 1])
