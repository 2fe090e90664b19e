"""`RenderOptions`, the content and appearance of rendered images in videos and in the viewer, and
rendering of an image from a trained field: values of the pixels, such as depth, and conversion of
the values to colors.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import unfused
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.bounds import Sphere, from_center
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.color import exposed
from nerfmac.geometry.near_plane import near_plane_at
from nerfmac.geometry.placement import Placement
from nerfmac.geometry.rays import Rays, camera_rays, panorama_rays
from nerfmac.ops.march import Occupied
from nerfmac.rendering.color_map import MAPS, colored, shown
from nerfmac.rendering.crop import Box, cropped
from nerfmac.rendering.normals import normals
from nerfmac.rendering.renderer import Renderer, TrainedField

OUTPUTS = ("rgb", "depth", "normal", "opacity")
DIAGNOSTICS = ("occupancy", "samples")  # Outputs that only the viewer supports.
EXTRA = "extra:"
"""Beginning of the output that shows an additional output of the field, such as `extra:normal`."""
PROJECTIONS = ("perspective", "equirectangular")
STEREO = ("side-by-side", "over-under")
MAX_SAMPLES = 1024  # Maximum number of rays per pixel.


@dataclass(frozen=True)
class RenderOptions:
    """Content and appearance of a rendered image. Lengths are in scene units, except in `crop`.

    If there are several samples per pixel, an image is the mean of several images. The rays of
    these images have different positions in the pixel and on the aperture, and different times.
    Colors are averaged in linear light. Distances and normals are weighted by opacity.

    Raises:
        InputError: If a value is out of range, or options cannot be combined.
    """

    output: str = "rgb"
    """Quantity to render: `rgb`, `depth` (distance as in `Rendered`), `normal` (in scene axes),
    `opacity`, `extra:NAME` for an additional output of the field, or, only in the viewer, one of
    `DIAGNOSTICS`."""
    background: tuple[float, float, float] | None = (1.0, 1.0, 1.0)
    """Background color, sRGB in [0, 1]. With None, the background is transparent, and PNG and EXR
    files have an alpha channel."""
    exposure: float = 0.0
    """Exposure compensation in stops, for `rgb` only. A value of 1 doubles the brightness of the
    image and the background."""
    crop: Box | None = None
    """Lowest and highest corner of the box to show, or None for the whole scene. The box is
    enlarged to whole cells of the occupancy grid. In videos, the corners are in the coordinates of
    the input scene. In the viewer, they are in scene coordinates."""
    near: float | None = None
    """Distance of the near plane. Closer samples are ignored. By default, the near plane of
    the run (`MarchConfig.near`), but not beyond the surface of the subject."""
    samples: int = 1
    """Number of rays per pixel. A single ray passes through the center of the pixel."""
    aperture: float = 0.0
    """Radius of the aperture. If it is 0, the whole image is in focus."""
    focus: float | None = None
    """Focus distance. By default, the distance of the point that the training cameras look at."""
    projection: str = "perspective"
    """Projection: `perspective`, or `equirectangular` for a 360 degree image with the forward
    direction in the middle."""
    stereo: str | None = None
    """Stereo layout: `side-by-side` (left eye on the left), `over-under` (left eye on top), or None
    for one eye. The viewing axes are parallel, so that distant objects have the same pixels in both
    images."""
    eyes: float = 0.0
    """Distance between the eyes. If `stereo` is set, the distance must be positive. Otherwise, it
    must be 0."""
    color_map: str = "turbo"
    """Colormap of `depth`: `turbo`, `inferno`, or `gray`. The last color of the map is the nearest
    distance."""
    depth_range: tuple[float, float] | None = None
    """Nearest and farthest distance of the colormap in scene units. By default, both are estimated
    from a few images."""

    def __post_init__(self) -> None:
        if not str(self.output).startswith(EXTRA):
            checks.choice("output", self.output, (*OUTPUTS, *DIAGNOSTICS))
        checks.choice("projection", self.projection, PROJECTIONS)
        if self.stereo is not None:
            checks.choice("stereo", self.stereo, STEREO)
        checks.number("distance between the eyes", self.eyes, low=0.0)
        if (self.stereo is None) != (self.eyes == 0.0):
            raise InputError(
                f"stereo is {self.stereo} and eyes is {self.eyes:g}; set both, or none of them: "
                "eyes is the distance between the eyes, such as 0.03"
            )
        checks.choice("color map", self.color_map, MAPS)
        checks.number("samples", self.samples, low=1, high=MAX_SAMPLES, whole=True)
        checks.number("exposure", self.exposure, low=-20.0, high=20.0)
        if self.background is not None:
            for channel in checks.finite("background", self.background, (3,)):
                checks.number("background", float(channel), low=0.0, high=1.0)
        elif self.output == "opacity":
            raise InputError(
                "a transparent background cannot be combined with opacity output; choose a color"
            )
        checks.optional_number("near", self.near, low=0.0)
        if self.crop is not None:
            object.__setattr__(self, "crop", _checked_box(self.crop))
        if self.depth_range is not None:
            low, high = self.depth_range
            checks.number("depth range", low, low=0.0)
            checks.number("depth range", high, low=low + 1e-9)
        self._check_lens()

    def _check_lens(self) -> None:
        checks.number("aperture", self.aperture, low=0.0)
        checks.optional_number("focus", self.focus, low=1e-6)
        if self.aperture and self.projection != "perspective":
            raise InputError(
                "an aperture cannot be combined with an equirectangular image; remove one of them"
            )
        if self.aperture and self.samples < 2:
            raise InputError("an aperture requires several samples per pixel, such as 32")


def _checked_box(crop: Any) -> Box:
    """Check the crop box and return it as tuples. The argument may consist of nested lists."""
    try:
        low, high = checks.finite("crop", crop, (2, 3))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"crop is {crop!r}; expected two corners of three finite numbers"
        ) from error
    if (low >= high).any():
        raise InputError(f"crop is {crop}; expected the lowest corner before the highest")
    (a, b, c), (d, e, f) = low.tolist(), high.tolist()
    return (a, b, c), (d, e, f)


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
        background = options.background or (0.0, 0.0, 0.0)
        seen = self._renderer(camera).image(rays, camera.lens.width, background)
        color, opacity, depth, extras = seen
        if options.output == "rgb":
            if options.background is None:
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
        field, parameters = self._trained.field, self._trained.parameters
        parts = []
        for first in range(0, len(position), NORMALS_AT_ONCE):
            part = position[first : first + NORMALS_AT_ONCE]
            # The step is about half a cell of an occupancy grid, because these cells grow outside
            # the unit cube.
            step = mx.maximum(from_center(part), 0.5) / cells
            parts.append(normals(lambda at: field.density(parameters, at), part, step))
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
            values = colored(nearness, MAPS[options.color_map])
        elif options.output == "normal":
            values = 0.5 + 0.5 * values
        values = over_background(values, opacity, options)
    if options.background is None:
        values = mx.concatenate([values, opacity[:, None]], axis=1)
    return values


def over_background(color: mx.array, opacity: mx.array, options: RenderOptions) -> mx.array:
    """Composite `color` (pixels, 3) over the background, unless the background is transparent."""
    if options.background is None:
        return color
    opacity = opacity[:, None]
    return color * opacity + (1.0 - opacity) * mx.array(options.background)


def to_uint8(color: mx.array) -> mx.array:
    """Clip colors to [0, 1], and convert them to uint8 values from 0 to 255 with rounding."""
    return (mx.clip(color, 0.0, 1.0) * 255.0 + 0.5).astype(mx.uint8)


def _moved_right(camera: Camera, distance: float) -> Camera:
    pose = camera.pose.copy()
    pose[:, 3] += distance * pose[:, 0]
    return Camera(camera.lens, pose)
