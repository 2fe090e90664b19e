"""Rays to pixels: the shading that training and rendering share, and whole pictures.

A picture is rendered in two passes. The first counts every ray's samples in occupied space; rays
without any are background. The others are packed into batches of a fixed size, so a picture of any
size runs through one compiled function and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.cameras import Camera
from nerfmac.field import Parameters, RadianceField
from nerfmac.ops.composite import Composited, composite
from nerfmac.ops.march import MarchGeometry, count_samples, write_samples
from nerfmac.rays import camera_rays
from nerfmac.samples import Samples

Picture = npt.NDArray[np.float32]


class Rendered(NamedTuple):
    """A picture on the host."""

    colour: Picture  # (h, w, 3) sRGB in [0, 1], over the background
    opacity: Picture  # (h, w) in [0, 1]
    depth: Picture  # (h, w) mean distance of what is seen, in scene units; 0 where nothing is


def shade(
    field: RadianceField, parameters: Parameters, samples: Samples, directions: mx.array
) -> Composited:
    """What rays with `directions` (rays, 3) see of the field at their `samples`."""
    density, embedding = field.density(parameters, samples.position)
    basis = field.basis(mx.stop_gradient(directions))[samples.ray]
    colour = field.colour(parameters, embedding, basis)
    return composite(density, colour, samples.distance, samples.width, samples.ray_start)


class Renderer:
    """Renders pictures of one trained field; compiled once."""

    def __init__(
        self,
        field: RadianceField,
        geometry: MarchGeometry,
        parameters: Parameters,
        bits: mx.array,
        slots: int,
    ) -> None:
        """`slots`: samples evaluated at a time. `bits`: occupancy, as `ops.march` takes it."""
        self._slots = max(slots, geometry.most_intervals)
        self._rays = self._slots // 8  # of a batch; in occupied space few rays have fewer samples

        def count(origin: mx.array, direction: mx.array) -> mx.array:
            # a picture's samples stand in the middle of their intervals
            jitter = mx.full(origin.shape[:1], 0.5)
            return count_samples(origin, direction, jitter, bits, geometry)

        def batch(origin: mx.array, direction: mx.array, counts: mx.array) -> Composited:
            ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(counts)])
            jitter = mx.full(counts.shape, 0.5)
            write = partial(write_samples, origin, direction, jitter, bits, geometry)
            samples = write(self._slots, counts, ray_start)
            return shade(field, parameters, samples, direction)

        self._count: Callable[..., mx.array] = mx.compile(count)
        self._batch: Callable[..., Composited] = mx.compile(batch)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """The picture that `camera` takes, over `background` (sRGB in [0, 1])."""
        width, height = camera.lens.width, camera.lens.height
        rays = camera_rays(camera)
        counts = np.array(self._count(rays.origin, rays.direction))
        colour = np.zeros((width * height, 3), np.float32)
        opacity = np.zeros(width * height, np.float32)
        depth = np.zeros(width * height, np.float32)
        for chosen in self._batches(counts):
            # The padding repeats ray 0 with no samples.
            padded = np.zeros(self._rays, np.int32)
            padded[: len(chosen)] = chosen
            some = mx.array(padded)
            wanted = np.where(np.arange(self._rays) < len(chosen), counts[padded], 0)
            seen = self._batch(rays.origin[some], rays.direction[some], mx.array(wanted))
            mx.eval(seen)
            for whole, part in zip((colour, opacity, depth), seen, strict=True):
                whole[chosen] = np.array(part)[: len(chosen)]
        colour += (1.0 - opacity[:, None]) * np.array(background, np.float32)
        depth /= np.maximum(opacity, 1e-6)
        return Rendered(
            np.clip(colour, 0.0, 1.0).reshape(height, width, 3),
            opacity.reshape(height, width),
            depth.reshape(height, width),
        )

    def _batches(self, counts: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.int32]]:
        """Numbers of the rays that have samples, cut so that every part fits a batch."""
        alive = np.flatnonzero(counts).astype(np.int32)
        ends = np.cumsum(counts[alive], dtype=np.int64)
        begin, used = 0, 0
        while begin < len(alive):
            end = int(np.searchsorted(ends, used + self._slots, side="right"))
            end = min(end, begin + self._rays)
            yield alive[begin:end]
            begin, used = end, int(ends[end - 1])
