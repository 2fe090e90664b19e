"""Rays to pixels: the shading that training and rendering share, and whole pictures.

A picture is rendered in turns. First every ray's samples in occupied space are counted; rays
without any are background. Then the rays that still let light through evaluate their next few
samples, twice as many each turn, so that hardly anything behind a surface is ever looked at. What
is evaluated is packed into batches of a fixed size: a picture of any size runs through one compiled
function, and memory stays bounded.
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
from nerfmac.ops.composite import END, Composited, composite
from nerfmac.ops.march import MarchGeometry, count_samples, write_samples
from nerfmac.rays import Rays, camera_rays
from nerfmac.samples import Samples

Picture = npt.NDArray[np.float32]
Indices = npt.NDArray[np.signedinteger]

FIRST_TURN = 8
"""Samples a ray evaluates in its first turn, at most."""


class Rendered(NamedTuple):
    """A picture on the host."""

    colour: Picture  # (h, w, 3) sRGB in [0, 1], over the background
    opacity: Picture  # (h, w) in [0, 1]
    depth: Picture  # (h, w) mean distance of what is seen, in scene units; 0 where nothing is


class Seen(NamedTuple):
    """What some rays see of a stretch of theirs, on the host; as `Composited`."""

    colour: Picture
    opacity: Picture
    depth: Picture


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
        self._slots = max(slots, FIRST_TURN)
        self._rays = self._slots // FIRST_TURN  # of a batch

        def count(origin: mx.array, direction: mx.array) -> mx.array:
            # a picture's samples stand in the middle of their intervals
            jitter = mx.full(origin.shape[:1], 0.5)
            return count_samples(origin, direction, jitter, bits, geometry)

        def batch(
            origin: mx.array, direction: mx.array, take: mx.array, skip: mx.array
        ) -> Composited:
            ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(take)])
            jitter = mx.full(take.shape, 0.5)
            write = partial(write_samples, origin, direction, jitter, bits, geometry)
            samples = write(self._slots, ray_start, skip)
            return shade(field, parameters, samples, direction)

        self._count: Callable[..., mx.array] = mx.compile(count)
        self._batch: Callable[..., Composited] = mx.compile(batch)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """The picture that `camera` takes, over `background` (sRGB in [0, 1])."""
        width, height = camera.lens.width, camera.lens.height
        rays = camera_rays(camera)
        left = np.array(self._count(rays.origin, rays.direction))  # samples not yet evaluated
        done = np.zeros_like(left)
        colour = np.zeros((width * height, 3), np.float32)
        transmittance = np.ones(width * height, np.float32)
        depth = np.zeros(width * height, np.float32)
        turn = FIRST_TURN
        while len(alive := np.flatnonzero((left > 0) & (transmittance >= END))):
            take = np.minimum(left[alive], min(turn, self._slots))
            for some in self._batches(take):
                chosen = alive[some]
                seen = self._see(rays, chosen, take[some], done[chosen])
                colour[chosen] += transmittance[chosen, None] * seen.colour
                depth[chosen] += transmittance[chosen] * seen.depth
                transmittance[chosen] *= 1.0 - seen.opacity
            left[alive] -= take
            done[alive] += take
            turn *= 2
        opacity = 1.0 - transmittance
        colour += transmittance[:, None] * np.array(background, np.float32)
        depth /= np.maximum(opacity, 1e-6)
        return Rendered(
            np.clip(colour, 0.0, 1.0).reshape(height, width, 3),
            opacity.reshape(height, width),
            depth.reshape(height, width),
        )

    def _see(self, rays: Rays, chosen: Indices, take: Indices, skip: Indices) -> Seen:
        """What the chosen rays' next `take` samples after `skip` show, as host arrays."""
        # The padding repeats ray 0 with no samples.
        padding = (0, self._rays - len(chosen))
        some, counts, skipped = (
            mx.array(np.pad(each, padding).astype(np.int32)) for each in (chosen, take, skip)
        )
        seen = self._batch(rays.origin[some], rays.direction[some], counts, skipped)
        mx.eval(seen)
        return Seen(*(np.array(part)[: len(chosen)] for part in seen))

    def _batches(self, take: Indices) -> Iterator[slice]:
        """Stretches of rays whose samples fit a batch."""
        ends = np.cumsum(take, dtype=np.int64)
        begin, used = 0, 0
        while begin < len(take):
            end = int(np.searchsorted(ends, used + self._slots, side="right"))
            end = min(end, begin + self._rays)
            yield slice(begin, end)
            begin, used = end, int(ends[end - 1])
