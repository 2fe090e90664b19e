"""`Renderer`: whole images, by the fastest way that field and sampler allow."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.backend import Arrays, compile_seldom, to_numpy, unfused
from nerfmac.common import checks
from nerfmac.fields.field import Field, Parameters, Tracer
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.rays import Rays, camera_rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited, composite
from nerfmac.ops.march import Occupied
from nerfmac.ops.median_depth import median_distance
from nerfmac.rendering.batches import RayBatches, SampleBatches
from nerfmac.rendering.tiles import Tiles
from nerfmac.sampling.sampler import Sampler

FloatImage = npt.NDArray[np.float32]


class Rendered(NamedTuple):
    """A image on the host."""

    color: FloatImage  # (h, w, 3) sRGB in [0, 1], over the background
    opacity: FloatImage  # (h, w) in [0, 1]
    depth: FloatImage
    """(h, w) distance from the camera in scene units at which the transmittance falls to 1/2; the
    mean distance where it does not, and 0 in empty space."""

    def __repr__(self) -> str:
        height, width = self.opacity.shape
        return f"Rendered({width}x{height}, mean opacity {self.opacity.mean():.2f})"

    def _repr_png_(self) -> bytes:
        """The image as a PNG file, which a notebook shows."""
        file = BytesIO()
        Image.fromarray(to_bytes(self.color)).save(file, "PNG")
        return file.getvalue()


def to_bytes(image: FloatImage) -> npt.NDArray[np.uint8]:
    """uint8 values of a image in [0, 1], rounded."""
    return (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def shade(
    field: Field, parameters: Parameters, samples: Samples, directions: mx.array, reaching: mx.array
) -> tuple[Composited, mx.array]:
    """Evaluate `field` at `samples` and composite them; return medians too.

    `directions` are unit (rays, 3); `reaching` and the medians are as in `median_distance`.
    """
    density, color = field(parameters, samples, directions)
    median = median_distance(density, samples, reaching)
    return composite(density, color, samples), median


def tracer_of(
    field: Field,
    parameters: Parameters,
    sampler: Sampler,
    sampling: Arrays,
    slots: int,
    occupied: Occupied | None = None,
) -> Tracer:
    """The fastest `Tracer`, a function that composites rays, that `field` and `sampler` allow.

    Args:
        field, parameters: the field to render.
        sampler, sampling: the sampler and its state.
        slots: samples evaluated at a time, if no kernel traces whole rays.
        occupied: cells to sample in, in place of the sampler's.
    """
    occupied = occupied or sampler.occupied(sampling)
    if occupied is None:
        return RayBatches(partial(shade, field, parameters), sampler, parameters, sampling, slots)
    traced = field.tracer(parameters, occupied)
    return traced or SampleBatches(partial(shade, field, parameters), occupied, slots)


class Renderer:
    """Renders images tile by tile.

    Its `Tracer`, a function of rays, returns their color, opacity and depth.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer, self._tiles = tracer, Tiles()

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """The image of `camera`, over `background` (sRGB in [0, 1]).

        Raises `InputError` if `camera` is no `Camera`.
        """
        expected = "a nerfmac.Camera, such as one of run.orbit(frames=24)"
        checks.kind("camera", camera, Camera, expected)
        color, opacity, depth = map(to_numpy, self.pixels(camera, background))
        width, height = camera.lens.width, camera.lens.height
        return Rendered(
            color.reshape(height, width, 3),
            opacity.reshape(height, width),
            depth.reshape(height, width),
        )

    def see(self, rays: Rays, width: int = 0) -> Composited:
        """Color without background, opacity and depth of any `rays`, on the device.

        Depth is that of `Rendered` times opacity. If the rays are the pixels of a image, row by
        row, `width` is its width; neighbors are then traced together, which saves time. If the
        sampler has an occupancy grid, raises `InputError` for a wrong shape or type.
        """
        return self._tracer(rays, width)

    def pixels(
        self, camera: Camera, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Color (pixels, 3), opacity and depth (pixels,) as in `Rendered`, on the device."""
        with unfused():
            rays = camera_rays(camera)
        return self.over(rays, camera.lens.width, background)

    def over(
        self, rays: Rays, width: int, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Color, opacity and depth as in `pixels`, for any `rays` of a image, row by row."""
        pixels, seen, first = rays.origin.shape[0], [], 0
        while first < pixels:
            end = first + max(self._tiles.rays // width // 4 * 4, 1) * width
            tile = rays
            if first > 0 or end < pixels:
                tile = Rays(*(values[first:end] for values in rays))
            trace = partial(self._blended, tile, width, mx.array(background))
            seen.append(self._tiles.run(trace, is_last=end >= pixels))
            first = end
        if len(seen) == 1:
            return seen[0]
        color, opacity, depth = (mx.concatenate(list(parts)) for parts in zip(*seen, strict=True))
        return color, opacity, depth

    def _blended(
        self, rays: Rays, width: int, background: mx.array
    ) -> tuple[mx.array, mx.array, mx.array]:
        return _over(*self.see(rays, width), background)


@compile_seldom
def _over(
    color: mx.array, opacity: mx.array, depth: mx.array, background: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    over = color + (1.0 - opacity[:, None]) * background
    return mx.clip(over, 0.0, 1.0), opacity, depth / mx.maximum(opacity, 1e-6)
