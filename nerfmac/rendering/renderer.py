"""`Renderer` renders images with the fastest method that the field and the sampler support."""

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
    """Rendered image in host memory."""

    color: FloatImage  # (h, w, 3) sRGB in [0, 1], over the background.
    opacity: FloatImage  # (h, w) in [0, 1].
    depth: FloatImage
    """Depth (h, w) in scene units: the distance from the camera at which the transmittance falls to
    1/2. If the transmittance of the whole ray is above 1/2, the depth is the mean distance of the
    density along the ray. In empty space, the depth is 0."""

    def __repr__(self) -> str:
        height, width = self.opacity.shape
        return f"Rendered({width}x{height}, mean opacity {self.opacity.mean():.2f})"

    def _repr_png_(self) -> bytes:
        """Return the image as a PNG file for notebooks."""
        file = BytesIO()
        Image.fromarray(to_bytes(self.color)).save(file, "PNG")
        return file.getvalue()


def to_bytes(image: FloatImage) -> npt.NDArray[np.uint8]:
    """Convert an image in [0, 1] to uint8, rounding to nearest."""
    return (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def shade(
    field: Field, parameters: Parameters, samples: Samples, directions: mx.array, reaching: mx.array
) -> tuple[Composited, mx.array]:
    """Evaluate a field at samples, and composite the samples.

    Args:
        field: Field to render.
        parameters: Parameters of the field.
        samples: Samples of the rays.
        directions: Unit directions (rays, 3).
        reaching: Transmittance in front of the samples, as in `median_distance`.

    Returns:
        The composited rays, and their median distances (rays,) as in `median_distance`.
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
    """Return the fastest available function that renders rays of a field.

    Args:
        field: Field to render.
        parameters: Parameters of the field.
        sampler: Sampler of the field.
        sampling: State of the sampler.
        slots: Maximum number of samples to evaluate at a time if no kernel can trace whole rays.
        occupied: Cells to sample. By default, the occupied cells of the sampler.

    Returns:
        Function that renders rays, see `nerfmac.fields.field.Tracer`.
    """
    occupied = occupied or sampler.occupied(sampling)
    if occupied is None:
        return RayBatches(partial(shade, field, parameters), sampler, parameters, sampling, slots)
    traced = field.tracer(parameters, occupied)
    return traced or SampleBatches(partial(shade, field, parameters), occupied, slots)


class Renderer:
    """Renders images tile by tile.

    Args:
        tracer: Function that returns the color, opacity, and depth of rays.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer, self._tiles = tracer, Tiles()

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """Render an image of the scene from a camera.

        Args:
            camera: Camera in scene coordinates. Its intrinsics determine the image size.
            background: sRGB color in [0, 1] behind the scene.

        Returns:
            Color, opacity, and depth of each pixel.

        Raises:
            InputError: If `camera` is not a `Camera`.
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

    def see(self, rays: Rays, width: int | None = None) -> Composited:
        """Render rays on the device, without a background.

        Args:
            rays: Rays in scene coordinates.
            width: Image width in pixels if the rays are the pixels of an image in row-major order,
                or None for other rays. With a width, rendering is faster, because neighboring
                pixels are traced together.

        Returns:
            Color, opacity, and depth times opacity of each ray.

        Raises:
            InputError: If the sampler has an occupancy grid and an array has the wrong shape or
                type.
        """
        return self._tracer(rays, width)

    def pixels(
        self, camera: Camera, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Render all pixels of one camera on the device.

        Args:
            camera: Camera in scene coordinates.
            background: sRGB color in [0, 1] behind the scene.

        Returns:
            Color (pixels, 3), opacity (pixels,), and depth (pixels,), as in `Rendered`.
        """
        with unfused():
            rays = camera_rays(camera)
        return self.over(rays, camera.lens.width, background)

    def over(
        self, rays: Rays, width: int, background: tuple[float, float, float]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Render an image's rays, in row-major order, over a background.

        Args:
            rays: Rays in scene coordinates.
            width: Image width in pixels.
            background: sRGB color in [0, 1] behind the scene.

        Returns:
            Color, opacity, and depth, as in `pixels`.
        """
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
