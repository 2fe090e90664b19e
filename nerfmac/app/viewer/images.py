"""Viewer images: the same outputs as for videos, two diagnostic outputs, and photos or the depth of
a sensor for comparison.

    depth      distance as in `Rendered`, from red at 0 to violet at twice the focus distance
    normal     surface normal in scene axes, 0.5 + 0.5 normal as red, green, blue
    occupancy  occupied cells as solid blocks: the hue depends on the cascade, the brightness on the
               axis of the visible face, with a small random variation per cell
    samples    number of samples on the ray in occupied cells, on a logarithmic colormap that ends
               at the maximum number in the scene

A pixel depends only on its ray, so an image can be drawn in strips. Except for `opacity`, the
background is visible where a pixel is not opaque or its ray hits no occupied cell.

Ray marching in small steps finds the first occupied cell on each ray. It can miss a corner of a
cell that covers less than a pixel. The distance to the point where the ray enters a cell is
computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from PIL import Image

from nerfmac.app.run import Run
from nerfmac.app.scenes import Frame
from nerfmac.app.scenes.images import decode_thumbnail
from nerfmac.common import PARALLEL_SLOPE, BoolArray, Float32Array, InputError, UInt8Array, checks
from nerfmac.config.rendering import DIAGNOSTICS, Color, RenderOptions
from nerfmac.geometry import Camera, Rays, Sphere, along_rays, camera_rays, over
from nerfmac.geometry.cells import cells_of, corners_of
from nerfmac.ops import march
from nerfmac.rendering.color_map import INFERNO, colored
from nerfmac.rendering.metrics import psnr
from nerfmac.rendering.view_renderer import ViewRenderer, colors, over_background, to_uint8
from nerfmac.training.model import Model
from nerfmac.training.state import TrainState

FACE_BRIGHTNESS = (0.8, 0.62, 1.0)  # Brightness factors of cell faces perpendicular to x, y, and z.
CELL_VARIATION = 0.12  # Maximum random difference in brightness between cells.
CASCADE_COLORS = (
    (0.96, 0.72, 0.30),
    (0.40, 0.70, 0.90),
    (0.55, 0.80, 0.45),
    (0.90, 0.50, 0.65),
    (0.70, 0.60, 0.90),
)
"""sRGB colors of the cascades, from the innermost to the outermost. The colors repeat."""
SURFACE_OPACITY = 0.5
"""Minimum opacity of a pixel that shows a surface. When the page warps an image, less opaque
pixels, such as haze, move like the background."""


class Drawn(NamedTuple):
    """Viewer image in host memory."""

    rgb: UInt8Array  # (h, w, 3).
    depth: Float32Array  # (h, w) distance as in `Rendered`; 0 for empty pixels.
    is_surface: BoolArray  # (h, w), whether the depth belongs to a surface.


class Images:
    """Renderer of viewer images for a training state."""

    def __init__(
        self,
        model: Model,
        state: TrainState,
        options: RenderOptions,
        subject: Sphere | None = None,
    ) -> None:
        self._options = options
        self._view = ViewRenderer(model.trained(state), options, subject=subject)

    def draw(self, camera: Camera, focus: float) -> Drawn:
        """Draw an image from a camera in scene coordinates. `focus` is the distance from the camera
        to the point that it orbits, in scene units. The colors of the output `depth` end at twice
        this distance and have the highest contrast at this distance."""
        checks.number("focus", focus, low=1e-9)
        options = self._options
        if options.output in DIAGNOSTICS:
            draw = self._occupancy if options.output == "occupancy" else self._samples
            color, depth = draw(camera)
            is_surface = depth > 0.0
        else:
            values, opacity, depth = self._view.render(camera)
            color = colors(values, opacity, options, (0.0, 2.0 * focus), is_eased=True)
            is_surface = opacity >= SURFACE_OPACITY
        size = camera.lens.height, camera.lens.width
        rgb = to_uint8(color)
        mx.eval(rgb, depth, is_surface)
        rest = (np.array(values).reshape(size) for values in (depth, is_surface))
        return Drawn(np.array(rgb).reshape(*size, 3), *rest)

    @property
    def _occupied(self) -> march.Occupied:
        if (occupied := self._view.occupied) is None:
            raise InputError(
                "the modes occupancy and samples require an occupancy grid, but the sampler of "
                "this run has none; choose another mode"
            )
        return occupied

    def _occupancy(self, camera: Camera) -> tuple[mx.array, mx.array]:
        geometry, bits = self._occupied
        block = first_blocks(camera_rays(camera), bits, geometry)
        cascade = cascade_of(block.cell, geometry) % len(CASCADE_COLORS)
        light = mx.array(FACE_BRIGHTNESS)[block.axis] * (1.0 - CELL_VARIATION * _random(block.cell))
        color = mx.array(CASCADE_COLORS)[cascade] * light[:, None]
        return over_background(color, block.is_hit, self._options), block.depth

    def _samples(self, camera: Camera) -> tuple[mx.array, mx.array]:
        geometry, bits = self._occupied
        first = first_samples(camera_rays(camera), bits, geometry)
        fraction = mx.log(1.0 + first.samples) / log(1.0 + geometry.most_intervals)
        color = over_background(colored(fraction, INFERNO), first.samples > 0, self._options)
        return color, first.distance


def _random(cell: mx.array) -> mx.array:
    """Return a pseudo-random number in [0, 1) per cell (Knuth's multiplicative hash)."""
    mixed = cell.astype(mx.uint32) * mx.array(2654435761, mx.uint32)
    return (mixed >> 16).astype(mx.float32) / 2**16


def photos(run: Run) -> list[Frame]:
    """Return the photos that a page shows: those of the training views, and then held-out ones."""
    splits = run.images().splits
    return [*splits["train"], *splits.get("test", ())]


@dataclass(frozen=True, eq=False)
class PhotoComparison:
    """Photo, for comparison with the rendering from the same camera."""

    index: int
    name: str
    camera: Camera
    photo: UInt8Array  # (h, w, 3) sRGB, over the background, or the measured depth.
    content: str = "photo"  # Text next to the photo: `photo` or `measured depth`.

    @classmethod
    def of(cls, run: Run, index: int, background: Color) -> PhotoComparison:
        """Read a photo. `index` is its index in `photos`, and `background` is an sRGB color in
        [0, 1] behind transparent photos."""
        frames, trained, has_alpha = photos(run), run.cameras, run.images().has_alpha
        if not 0 <= index < len(frames):
            raise InputError(f"photo {index} does not exist; the scene has {len(frames)} photos")
        frame = frames[index]
        pixels, _ = frame.decode(4 if has_alpha else 3)
        if has_alpha:
            blend = run.config.train.blend
            mixed = over(mx.array(pixels / np.float32(255)), mx.array(background), blend)
            pixels = (np.array(mixed) * 255.0 + 0.5).astype(np.uint8)
        camera = trained[index] if index < len(trained) else frame.camera
        return cls(index, frame.name, camera, pixels)

    def with_measured_depth(
        self, run: Run, options: RenderOptions, focus: float
    ) -> PhotoComparison:
        """Return a copy with the depth that a sensor has measured instead of the photo, in the
        colors of `Images.draw`. Views without a depth image keep their photo."""
        frame = photos(run)[self.index]
        if (decoded := frame.decode_depth()) is None:
            return self
        depth, confidence = decoded
        distance = mx.array(along_rays(depth, frame.camera.lens).ravel())
        is_known = mx.array((confidence > 0).ravel().astype(np.float32))
        rgb = to_uint8(colors(distance, is_known, options, (0.0, 2.0 * focus), is_eased=True))
        measured = np.array(rgb).reshape(*depth.shape, 3)
        return replace(self, photo=measured, content="measured depth")

    def psnr(self, rgb: UInt8Array) -> float:
        """Return the PSNR in dB of a rendering (h, w, 3) relative to the resized photo."""
        height, width = rgb.shape[:2]
        target = self.photo
        if target.shape != rgb.shape:
            resized = Image.fromarray(target).resize((width, height), Image.Resampling.BOX)
            target = np.asarray(resized)
        return psnr(rgb / np.float32(255), target / np.float32(255))


THUMBNAIL_SIDE = 192  # Maximum side length in pixels.


def thumbnails(run: Run, background: Color) -> Iterator[UInt8Array]:
    """Yield a small copy (h, w, 3) of each photo, for the frusta of the page. `background`
    is an sRGB color in [0, 1] behind transparent photos."""
    for frame in photos(run):
        pixels = decode_thumbnail(frame.image, THUMBNAIL_SIDE, upright=frame.is_upright)
        if pixels.shape[2] == 4:
            alpha = pixels[..., 3:] / np.float32(255)
            behind = 255.0 * np.array(background, np.float32)
            pixels = (alpha * pixels[..., :3] + (1.0 - alpha) * behind + 0.5).astype(np.uint8)
        yield pixels


MIN_STEP = 1 / 16  # Minimum marching step, relative to the side length of the smallest cell.
STEP_GROWTH = 1 / 1024
"""Length of a marching step, relative to the distance from the camera: about the width of a pixel
in an image with a width of 1000 pixels."""
NEIGHBOR_OFFSET = 1e-3
"""Distance, relative to the side length of a cell, from its face to the point that is used to look
up the neighboring cell."""


class FirstSamples(NamedTuple):
    """First sample of each ray."""

    samples: mx.array  # (rays,) int32, number of samples on the whole ray.
    # (rays,) float32, distance of the first sample in scene units, or 0 for a ray without samples.
    distance: mx.array
    # (rays, 3) float32, position of the first sample in scene coordinates; arbitrary for a ray
    # without samples.
    position: mx.array


class Blocks(NamedTuple):
    """First occupied cell of each ray."""

    is_hit: mx.array  # (rays,) bool.
    # (rays,) float32, distance to the entered face in scene units, or 0 for a ray without a hit.
    depth: mx.array
    axis: mx.array  # (rays,) int32, axis perpendicular to the entered face.
    cell: mx.array  # (rays,) int32, index of the cell, or -1 for a ray without a hit.


def first_samples(rays: Rays, bits: mx.array, geometry: march.MarchGeometry) -> FirstSamples:
    """Find the first sample, in the middle of its interval, and count the samples of each ray."""
    number = rays.origin.shape[0]
    marched = (*rays[:2], mx.full((number,), 0.5), march.Occupied(geometry, bits))
    count = march.count_samples(*marched)
    ray_start = mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(mx.minimum(count, 1))])
    packed = march.write_samples(*marched, number, ray_start)
    own = mx.minimum(ray_start[:-1], number - 1)
    distance = mx.where(count > 0, packed.distance[own], 0.0)
    return FirstSamples(count, distance, packed.position[own])


def first_blocks(rays: Rays, bits: mx.array, geometry: march.MarchGeometry) -> Blocks:
    """Find the first occupied cell, a cube clipped to the scene cube, that each ray hits."""
    fine = replace(geometry, step=MIN_STEP / geometry.resolution, cone=STEP_GROWTH)
    first = first_samples(rays, bits, fine)
    is_hit = first.samples > 0
    cell = march.cell_of(first.position, geometry)
    entry, axis = _enter(rays, cell, geometry)
    # A ray may cross an occupied cell between two samples, so that its first sample is in a later
    # cell. At a corner, the samples may miss up to three cells. Therefore, the loop moves each ray
    # back to the previous cell, up to three times, while the previous cell is occupied.
    for _ in range(3):
        beyond = NEIGHBOR_OFFSET * _side(cell, geometry)
        is_across = mx.arange(3) == axis[:, None]
        position = rays.origin + rays.direction * entry[:, None]
        position = position - mx.where(is_across, mx.sign(rays.direction) * beyond, 0.0)
        is_hidden = march.is_occupied(position, bits, geometry) & (entry > geometry.near)
        cell = mx.where(is_hidden, march.cell_of(position, geometry), cell)
        entry, axis = _enter(rays, cell, geometry)
    # If the camera is inside the cell, the depth is the distance of the near plane.
    depth = mx.where(is_hit, mx.maximum(entry, geometry.near), 0.0)
    return Blocks(is_hit, depth, axis, mx.where(is_hit, cell, -1))


def cascade_of(cell: mx.array, geometry: march.MarchGeometry) -> mx.array:
    """Return the cascade of each cell. The innermost cascade is 0."""
    return cells_of(mx.maximum(cell, 0), geometry.resolution).cascade


def _enter(rays: Rays, cell: mx.array, geometry: march.MarchGeometry) -> tuple[mx.array, mx.array]:
    """Return the distance at which each ray enters its cell, and the axis of the entered face."""
    # These are the lowest and highest corners of the cells, clipped to the scene cube.
    corner, side = corners_of(cell, geometry.resolution)
    low, high = (float(end[0]) for end in geometry.bounds.corners)
    lowest, highest = mx.maximum(corner, low), mx.minimum(corner + side[:, None], high)
    # A ray that is parallel to two faces never crosses them, so the distance for this axis is set
    # to a value that is not the largest of the three.
    slope = mx.where(mx.abs(rays.direction) < PARALLEL_SLOPE, 1.0, rays.direction)
    face = (mx.where(slope > 0, lowest, highest) - rays.origin) / slope
    return face.max(axis=1), mx.argmax(face, axis=1).astype(mx.int32)


def _side(cell: mx.array, geometry: march.MarchGeometry) -> mx.array:
    """Return the side length of each cell in scene units, shape (cells, 1)."""
    return mx.power(2.0, cascade_of(cell, geometry))[:, None] / geometry.resolution
