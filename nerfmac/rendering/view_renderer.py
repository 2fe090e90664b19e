"""Rendering of an image with `RenderOptions` from a trained field: values of the pixels, such as
depth, and conversion of the values to colors."""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import unfused
from nerfmac.common import InputError
from nerfmac.config.rendering import EXTRA, RenderOptions
from nerfmac.geometry import (
    Camera,
    Placement,
    Rays,
    Sphere,
    camera_rays,
    exposed,
    from_center,
    near_plane_at,
    panorama_rays,
)
from nerfmac.ops.march import Occupied
from nerfmac.rendering.color_map import MAPS, colored, shown
from nerfmac.rendering.crop import cropped
from nerfmac.rendering.normals import normals
from nerfmac.rendering.renderer import Renderer, TrainedField

CELLS = 128  # Cells along the unit cube for normals without an occupancy grid.
NORMALS_AT_ONCE = 2**17  # Normals computed at a time, from eight densities each.


class PixelValues(NamedTuple):
    """Values of an image on the device, one row per pixel."""

    values: mx.array
    """sRGB colors or normals (pixels, 3), or distances in scene units or opacity (pixels,). Colors
    are composited over the background. If the background is transparent, colors are not multiplied
    by opacity."""
    opacity: mx.array  # Opacity (pixels,) in [0, 1].
    depth: mx.array  # Distance (pixels,) in scene units as in `Rendered`, or 0 for empty pixels.


class ViewRenderer:
    """Renderer of the output that `options` specifies, such as depth, for a trained field."""

    def __init__(
        self,
        trained: TrainedField,
        options: RenderOptions,
        placement: Placement | None = None,
        subject: Sphere | None = None,
    ) -> None:
        """Create the renderer. No image is rendered yet.

        `options.crop` is in scene coordinates or, with a `placement`, in the coordinates of the
        input scene. Cameras that approach the sphere `subject` have a smaller near plane. If it is
        None and `options.near` is None, the near plane is at most `NEAR`.
        """
        self.options = options
        self._trained, self._placement = trained, placement
        self._subject = subject
        self._latest: tuple[float, Renderer] | None = None  # Near plane and its renderer.

    @cached_property
    def occupied(self) -> Occupied | None:
        """Occupied cells for marching rays, or None if the sampler has no occupancy grid. If
        `options.crop` is set, cells outside the crop are empty. If `options.near` is set, closer
        samples are skipped."""
        occupied, options = self._trained.occupied, self.options
        if options.crop is None and options.near is None:
            return occupied
        if occupied is None:
            raise InputError(
                "crop and near require an occupancy grid, but the sampler of the run has none"
            )
        geometry, bits = occupied
        bits = cropped(bits, geometry, options.crop, self._placement)
        if options.near is not None:
            geometry = replace(geometry, near=options.near)
        return Occupied(geometry, bits)

    def _renderer(self, camera: Camera) -> Renderer:
        """Return a renderer whose near plane is the near plane of a camera. The renderer is stored,
        because consecutive cameras often have the same near plane."""
        occupied, near = self.occupied, 0.0
        if occupied is not None:
            near = occupied.geometry.near
            if self.options.near is None:
                near = near_plane_at(camera.pose[:, 3], near, self._subject)
                occupied = Occupied(replace(occupied.geometry, near=near), occupied.bits)
        if self._latest is None or self._latest[0] != near:
            self._latest = near, self._trained.renderer(occupied)
        return self._latest[1]

    def render(self, camera: Camera, eye: float = 0.0) -> PixelValues:
        """Render the values at all pixels of a camera image, in row-major order. The viewpoint is
        shifted to the right of the camera by `eye`, in scene units. In an equirectangular image,
        the right direction is different for each viewing direction."""
        options = self.options
        with unfused():
            if options.projection == "equirectangular":
                rays = panorama_rays(camera, eye)
            else:
                rays = camera_rays(_moved_right(camera, eye) if eye else camera)
        background = options.background_color or (0.0, 0.0, 0.0)
        seen = self._renderer(camera).image(rays, camera.lens.width, background)
        color, opacity, depth, extras = seen
        if options.output == "rgb":
            if options.background_color is None:
                color = mx.minimum(color / mx.maximum(opacity, 1e-6)[:, None], 1.0)
            return PixelValues(exposed(color, options.exposure), opacity, depth)
        if options.output == "normal":
            return PixelValues(self._normals(rays, depth), opacity, depth)
        if options.output.startswith(EXTRA):
            name = options.output.removeprefix(EXTRA)
            if name not in extras:
                known = ", ".join(extras) or "none"
                raise InputError(f"the field has no output {name!r}; additional outputs: {known}")
            values = extras[name] / mx.maximum(opacity, 1e-6)[:, None]
            return PixelValues(shown(values), opacity, depth)
        return PixelValues(depth if options.output == "depth" else opacity, opacity, depth)

    def _normals(self, rays: Rays, depth: mx.array) -> mx.array:
        position = rays.origin + depth[:, None] * rays.direction
        cells = self.occupied.geometry.resolution if self.occupied else CELLS
        parts = []
        for first in range(0, len(position), NORMALS_AT_ONCE):
            part = position[first : first + NORMALS_AT_ONCE]
            # The step is about half a cell of an occupancy grid, because these cells grow outside
            # the unit cube.
            step = mx.maximum(from_center(part), 0.5) / cells
            parts.append(normals(self._trained.density, part, step))
            mx.async_eval(parts[-1])
        return mx.concatenate(parts)


def colors(
    values: mx.array,
    opacity: mx.array,
    options: RenderOptions,
    depth_range: tuple[float, float] = (0.0, 1.0),
    *,
    is_eased: bool = False,
) -> mx.array:
    """Convert the values of pixels to sRGB colors (pixels, 3) in [0, 1], or (pixels, 4) with
    straight alpha if the background is transparent.

    Depth is shown with a colormap, whose last color is the nearest distance in `depth_range`, in
    scene units. With `is_eased`, Perlin's smooth step (2002) nearly doubles the contrast in the
    middle of the range. Normals are shown as 0.5 + 0.5 normal. Both are composited over the
    background.
    """
    if options.output == "opacity":
        return mx.broadcast_to(opacity[:, None], (len(opacity), 3))
    if options.output != "rgb":
        if options.output == "depth":
            low, high = depth_range
            nearness = (high - values) / (high - low)
            if is_eased:
                nearness = nearness**3 * (10.0 + nearness * (6.0 * nearness - 15.0))
            values = colored(nearness, MAPS[options.colormap])
        elif options.output == "normal":
            values = 0.5 + 0.5 * values
        values = over_background(values, opacity, options)
    if options.background_color is None:
        values = mx.concatenate([values, opacity[:, None]], axis=1)
    return values


def over_background(color: mx.array, opacity: mx.array, options: RenderOptions) -> mx.array:
    """Composite `color` (pixels, 3) over the background, unless the background is transparent."""
    if options.background_color is None:
        return color
    opacity = opacity[:, None]
    return color * opacity + (1.0 - opacity) * mx.array(options.background_color)


def to_uint8(color: mx.array) -> mx.array:
    """Clip colors to [0, 1], and convert them to uint8 values from 0 to 255 with rounding."""
    return (mx.clip(color, 0.0, 1.0) * 255.0 + 0.5).astype(mx.uint8)


def _moved_right(camera: Camera, distance: float) -> Camera:
    pose = camera.pose.copy()
    pose[:, 3] += distance * pose[:, 0]
    return Camera(camera.lens, pose)
