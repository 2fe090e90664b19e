"""Rays to pixels: the shading that training and rendering have in common, and whole pictures."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import Arrays, compile_seldom, unfused
from nerfmac.common import checks
from nerfmac.fields.field import Field, Parameters, Tracer
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.rays import Rays, camera_rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited, composite
from nerfmac.ops.march import Occupied
from nerfmac.rendering.ray_batches import RayBatches
from nerfmac.rendering.sample_batches import SampleBatches
from nerfmac.rendering.tiles import Tiles
from nerfmac.sampling.sampler import Sampler

Picture = npt.NDArray[np.float32]


class Rendered(NamedTuple):
    """A picture on the host."""

    colour: Picture  # (h, w, 3) sRGB in [0, 1], over the background
    opacity: Picture  # (h, w) in [0, 1]
    depth: Picture  # (h, w) mean distance of what is seen, in scene units; 0 where nothing is


def shade(
    field: Field, parameters: Parameters, samples: Samples, directions: mx.array
) -> Composited:
    """What rays with `directions` (rays, 3) see of the field at their `samples`."""
    density, colour = field(parameters, samples, directions)
    return composite(density, colour, samples.distance, samples.width, samples.ray_start)


def tracer_of(
    field: Field,
    parameters: Parameters,
    sampler: Sampler,
    sampling: Arrays,
    slots: int,
    occupied: Occupied | None = None,
) -> Tracer:
    """The fastest tracer that `field` and `sampler` allow.

    Args:
        field, parameters: what is rendered.
        sampler, sampling: where rays are sampled, and the sampler's state.
        slots: samples evaluated at a time, where no kernel traces whole rays.
        occupied: the cells to sample in, in place of those that the sampler knows of.
    """
    occupied = occupied or sampler.occupied(sampling)
    if occupied is None:
        return RayBatches(partial(shade, field, parameters), sampler, parameters, sampling, slots)
    traced = field.tracer(parameters, occupied)
    return traced or SampleBatches(partial(shade, field, parameters), occupied, slots)


class Renderer:
    """Renders pictures of what a tracer sees."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer, self._tiles = tracer, Tiles()

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """The picture that `camera` takes, over `background` (sRGB in [0, 1]).

        Raises `InputError` for what is no camera.
        """
        expected = "a nerfmac.Camera, such as one of run.orbit(frames=24)"
        checks.kind("camera", camera, Camera, expected)
        colour, opacity, depth = map(np.array, self.pixels(camera, background))
        width, height = camera.lens.width, camera.lens.height
        return Rendered(
            colour.reshape(height, width, 3),
            opacity.reshape(height, width),
            depth.reshape(height, width),
        )

    def see(self, rays: Rays, width: int = 0) -> Composited:
        """What any `rays` see, on the device: colour without a background, opacity and depth.

        Depth is not divided by opacity. If the rays are a picture's pixels, row by row, `width` is
        the picture's: neighbours are then traced together, which changes only the time. Raises
        `InputError` for a wrong shape or type.
        """
        return self._tracer(rays, width)

    def pixels(
        self, camera: Camera, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Colour (pixels, 3), opacity and depth (pixels,) as in `Rendered`, on the device."""
        with unfused():
            rays = camera_rays(camera)
        return self.over(rays, camera.lens.width, background)

    def over(
        self, rays: Rays, width: int, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """What `pixels` gives, of a picture of any `rays`, row by row, and any lens."""
        pixels, seen, first = rays.origin.shape[0], [], 0
        while first < pixels:
            end = first + max(self._tiles.rays // width // 4 * 4, 1) * width
            tile = rays
            if first > 0 or end < pixels:
                tile = Rays(*(part[first:end] for part in rays))
            shown = partial(self._shown, tile, width, mx.array(background))
            seen.append(self._tiles.run(shown, is_last=end >= pixels))
            first = end
        if len(seen) == 1:
            return seen[0]
        colour, opacity, depth = (mx.concatenate(list(parts)) for parts in zip(*seen, strict=True))
        return colour, opacity, depth

    def _shown(
        self, rays: Rays, width: int, background: mx.array
    ) -> tuple[mx.array, mx.array, mx.array]:
        return _over(*self.see(rays, width), background)


@compile_seldom
def _over(
    colour: mx.array, opacity: mx.array, depth: mx.array, background: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    over = colour + (1.0 - opacity[:, None]) * background
    return mx.clip(over, 0.0, 1.0), opacity, depth / mx.maximum(opacity, 1e-6)
