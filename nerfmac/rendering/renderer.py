"""Rays to pixels: the shading that training and rendering share, and whole pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import runs_kernel
from nerfmac.fields.encoded import RadianceField
from nerfmac.fields.networks import Parameters
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.rays import Rays, camera_rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited, composite
from nerfmac.ops.march import MarchGeometry
from nerfmac.rendering.batches import Turns

Picture = npt.NDArray[np.float32]

TILE = 2**20
"""Rays rendered at a time: a kernel that runs for a second may be taken for a hung one."""


class Field(Protocol):
    """Density (slots,) and colour (slots, 3) of packed samples, given the rays' directions."""

    def __call__(
        self, parameters: Parameters, samples: Samples, directions: mx.array, /
    ) -> tuple[mx.array, mx.array]:
        """As `RadianceField.__call__`."""
        ...


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


class Renderer:
    """Renders pictures of one trained field: by a kernel that traces rays, or else in turns."""

    def __init__(
        self,
        field: Field,
        geometry: MarchGeometry,
        parameters: Parameters,
        bits: mx.array,
        slots: int,
    ) -> None:
        """`slots`: samples evaluated at a time, in turns. `bits`: as `ops.march` takes them."""
        self._traced: Callable[[Rays, int], Composited]
        if isinstance(field, RadianceField) and runs_kernel("trace"):
            parameters = field.rounded(parameters)
            self._traced = partial(field.trace, parameters, bits=bits, geometry=geometry)
        else:
            self._traced = Turns(partial(shade, field, parameters), geometry, bits, slots)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """The picture that `camera` takes, over `background` (sRGB in [0, 1])."""
        colour, opacity, depth = map(np.array, self.pixels(camera, background))
        width, height = camera.lens.width, camera.lens.height
        return Rendered(
            colour.reshape(height, width, 3),
            opacity.reshape(height, width),
            depth.reshape(height, width),
        )

    def see(self, rays: Rays, width: int = 0) -> Composited:
        """What any `rays` see, on the device: colour without a background, opacity and depth.

        Depth is not divided by opacity. `width`: of the picture whose pixels the rays are, row by
        row, if they are: neighbours are then traced together, which changes the time only. Raises
        `InputError` for a wrong shape or type.
        """
        return self._traced(rays, width)

    def pixels(
        self, camera: Camera, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Colour (pixels, 3), opacity and depth (pixels,) as in `Rendered`, on the device."""
        width, height = camera.lens.width, camera.lens.height
        rays = camera_rays(camera)
        rows = max(TILE // width // 4 * 4, 1)
        seen = []
        for first in range(0, width * height, rows * width):
            tile = rays
            if rows < height:
                tile = Rays(*(part[first : first + rows * width] for part in rays))
            seen.append(_over(*self.see(tile, width), mx.array(background)))
            mx.async_eval(seen[-1])
        if len(seen) == 1:
            return seen[0]
        colour, opacity, depth = (mx.concatenate(list(parts)) for parts in zip(*seen, strict=True))
        return colour, opacity, depth


@mx.compile
def _over(
    colour: mx.array, opacity: mx.array, depth: mx.array, background: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    over = colour + (1.0 - opacity[:, None]) * background
    return mx.clip(over, 0.0, 1.0), opacity, depth / mx.maximum(opacity, 1e-6)
