"""`RenderOptions`, the content and appearance of rendered images in videos and in the viewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.rendering.color_map import MAPS
from nerfmac.rendering.crop import Box

OUTPUTS = ("rgb", "depth", "normal", "opacity")
DIAGNOSTICS = ("occupancy", "samples")  # Outputs that only the viewer supports.
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
    `opacity`, or, only in the viewer, one of `DIAGNOSTICS`."""
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
        checks.choice("output", self.output, (*OUTPUTS, *DIAGNOSTICS))
        checks.choice("projection", self.projection, PROJECTIONS)
        if self.stereo is not None:
            checks.choice("stereo", self.stereo, STEREO)
        checks.number("distance between the eyes", self.eyes, low=0.0)
        if (self.stereo is None) != (self.eyes == 0.0):
            raise InputError(
                "--stereo and --eye-distance must be used together; set --eye-distance to a "
                "distance between the eyes such as 0.03"
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
        raise InputError(f"crop is {crop!r}; expected two corners of three numbers") from error
    if (low >= high).any():
        raise InputError(f"crop is {crop}; expected the lowest corner before the highest")
    (a, b, c), (d, e, f) = low.tolist(), high.tolist()
    return (a, b, c), (d, e, f)
