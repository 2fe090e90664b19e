"""`Renderer` renders images with the fastest method that the field and the sampler support."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import NamedTuple, TypeVar

import mlx.core as mx
import numpy as np
from PIL import Image

from nerfmac.backend import Arrays, compile_seldom, current_device, to_numpy, unfused
from nerfmac.backend.watchdog import SHORTER, confirm, is_relaxed
from nerfmac.common import Float32Array, UInt8Array, checks
from nerfmac.fields.field import Field, Parameters, Tracer, evaluated
from nerfmac.geometry import Camera, Rays, Samples, Viewpoints, camera_rays
from nerfmac.ops.composite import Composited
from nerfmac.ops.march import Occupied
from nerfmac.ops.trace import composite_until_opaque
from nerfmac.rendering.batches import RayBatches, SampleBatches, SeenImage, joined
from nerfmac.sampling.sampler import Sampler

Result = TypeVar("Result")


class Rendered(NamedTuple):
    """Rendered image in host memory."""

    color: Float32Array  # (h, w, 3) sRGB in [0, 1], over the background.
    opacity: Float32Array  # (h, w) in [0, 1].
    depth: Float32Array
    """Depth (h, w) in scene units: the distance from the camera at which the transmittance falls to
    1/2. If the transmittance of the whole ray is above 1/2, the depth is the mean distance of the
    density along the ray. In empty space, the depth is 0."""
    extras: Mapping[str, Float32Array] = {}
    """Additional outputs of the field (h, w, channels), multiplied by the weights of the samples
    and added up, keyed by name."""

    def __repr__(self) -> str:
        height, width = self.opacity.shape
        return f"Rendered({width}x{height}, mean opacity {self.opacity.mean():.2f})"

    def _repr_png_(self) -> bytes:
        """Return the image as a PNG file for notebooks."""
        file = BytesIO()
        Image.fromarray(to_bytes(self.color)).save(file, "PNG")
        return file.getvalue()


def to_bytes(image: Float32Array) -> UInt8Array:
    """Convert an image in [0, 1] to uint8, rounding to nearest."""
    return (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def shade(field: Field, parameters: Parameters, samples: Samples, rays: Rays) -> Composited:
    """Composite all samples of rays, as `trace` does."""
    density, color, extras = evaluated(field, parameters, samples, rays)
    return composite_until_opaque(density, color, samples, extras)


class TrainedField(NamedTuple):
    """Field with trained parameters, and the sampler with its state: all that rendering needs."""

    field: Field
    parameters: Parameters  # of the field and the sampler
    sampler: Sampler
    sampling: Arrays  # state of the sampler
    slots: int  # maximum number of samples that are evaluated at a time without a tracer
    viewpoints: Viewpoints  # training cameras, and the completed fraction of the training

    @property
    def occupied(self) -> Occupied | None:
        """Occupied cells, or None if the sampler has no occupancy grid."""
        return self.sampler.occupied(self.sampling)

    def renderer(self, occupied: Occupied | None = None) -> Renderer:
        """Return a renderer. `occupied` replaces the occupied cells of the sampler."""
        return Renderer(tracer_of(self, occupied))

    def density(self, position: mx.array) -> mx.array:
        """Return the density (points,) per scene unit at scene positions (points, 3), as the
        nearest training camera sees it."""
        return self.field.density(self.parameters, *self.viewpoints.through(position))


def tracer_of(trained: TrainedField, occupied: Occupied | None = None) -> Tracer:
    """Return the fastest available function that renders rays of a trained field. `occupied`
    replaces the occupied cells of its sampler."""
    field, parameters, sampler, sampling, slots, viewpoints = trained
    occupied = occupied or trained.occupied
    if occupied and not field.extras and (traced := field.tracer(parameters, occupied)):
        return traced
    shaded, frac = partial(shade, field, parameters), mx.array(viewpoints.train_frac)
    batches: RayBatches | SampleBatches
    if occupied is None:
        batches = RayBatches(shaded, sampler, parameters, sampling, slots)
    else:
        batches = SampleBatches(shaded, occupied, slots, field.extras)
    return lambda rays, width: batches(rays._replace(train_frac=frac), width)


FIRST_TILE, SMALLEST_TILE, LARGEST_TILE = 2**14, 2**10, 2**20
"""Number of rays in the first tile on a GPU, and minimum and maximum numbers of rays in later
tiles."""
TILE_SECONDS = 0.05
"""Target rendering time of a tile."""


class Tiles:
    """Adapts the number of rays in a tile so that a launch takes about `TILE_SECONDS`.

    If a launch delays the display, macOS stops it after a second or less (ml-explore/mlx issue
    3267). The time per ray is measured, because it depends on the GPU, the field, and the haze in
    the scene. In the relaxed mode (`nerfmac.backend.watchdog`), the target time and the first tile
    are smaller. Launches on a CPU do not delay the display.
    """

    def __init__(self) -> None:
        self._target = TILE_SECONDS / (SHORTER if is_relaxed() else 1)
        first = SMALLEST_TILE if is_relaxed() else FIRST_TILE
        self.rays = LARGEST_TILE if current_device() == "cpu" else first
        """Maximum number of rays in the next tile."""

    def run(self, trace: Callable[[], Result], is_last: bool) -> Result:
        """Run `trace` for one tile, return its result, and adapt the size of the next tile.

        To measure a tile, the method first waits for all earlier launches and then for the tile.
        The last tile and tiles with the maximum size are not measured.
        """
        if is_last or self.rays == LARGEST_TILE:
            result = trace()
            mx.async_eval(result)
            return result
        mx.synchronize()
        start = time.perf_counter()
        result = trace()
        mx.eval(result)
        self._learn(time.perf_counter() - start)
        return result

    def _learn(self, seconds: float) -> None:
        if seconds > self._target:
            self.rays = max(self.rays // 2, SMALLEST_TILE)
        elif seconds < self._target / 8:
            self.rays = min(self.rays * 4, LARGEST_TILE)


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
        width, height = camera.lens.width, camera.lens.height
        seen = self.pixels(camera, background)
        color, opacity, depth = map(to_numpy, seen[:3])
        extras = {name: to_numpy(values) for name, values in seen.extras.items()}
        confirm()
        return Rendered(
            color.reshape(height, width, 3),
            opacity.reshape(height, width),
            depth.reshape(height, width),
            {name: values.reshape(height, width, -1) for name, values in extras.items()},
        )

    def see(self, rays: Rays, width: int | None = None) -> Composited:
        """Render rays on the device, without a background.

        Args:
            rays: Rays in scene coordinates.
            width: Image width in pixels if the rays are the pixels of an image in row-major order,
                or None for other rays. With a width, rendering is faster, because neighboring
                pixels are traced together.

        Returns:
            Color, opacity, weighted depth, and additional outputs of each ray.

        Raises:
            InputError: If the sampler has an occupancy grid and an array has the wrong shape or
                type.
        """
        return self._tracer(rays, width)

    def pixels(self, camera: Camera, background: tuple[float, float, float]) -> SeenImage:
        """Render all pixels of one camera on the device.

        Args:
            camera: Camera in scene coordinates.
            background: sRGB color in [0, 1] behind the scene.

        Returns:
            Pixels of the image on the device.
        """
        with unfused():
            rays = camera_rays(camera)
        return self.image(rays, camera.lens.width, background)

    def image(self, rays: Rays, width: int, background: tuple[float, float, float]) -> SeenImage:
        """Render an image's rays, in row-major order, over a background, with additional outputs.

        Args:
            rays: Rays in scene coordinates.
            width: Image width in pixels.
            background: sRGB color in [0, 1] behind the scene.

        Returns:
            Pixels of the image on the device.
        """
        pixels, seen, first = rays.origin.shape[0], [], 0
        while first < pixels:
            end = first + max(self._tiles.rays // width // 4 * 4, 1) * width
            tile = rays
            if first > 0 or end < pixels:
                tile = rays.at(slice(first, end))
            trace = partial(self._blended, tile, width, mx.array(background))
            seen.append(self._tiles.run(trace, is_last=end >= pixels))
            first = end
        return joined(seen)

    def _blended(self, rays: Rays, width: int, background: mx.array) -> SeenImage:
        seen = self.see(rays, width)
        over = _over(seen.color, seen.opacity, seen.weighted_depth, background)
        return SeenImage(*over, seen.extras)


@compile_seldom
def _over(
    color: mx.array, opacity: mx.array, weighted_depth: mx.array, background: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    over = color + (1.0 - opacity[:, None]) * background
    return mx.clip(over, 0.0, 1.0), opacity, weighted_depth / mx.maximum(opacity, 1e-6)
