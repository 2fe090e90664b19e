"""`RenderOptions`: content and appearance of rendered images, in videos and in the viewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.rendering.color_map import MAPS
from nerfmac.rendering.crop import Box

OUTPUTS = ("rgb", "depth", "normal", "opacity")
DIAGNOSTICS = ("occupancy", "samples")
"""Outputs of the viewer alone: occupied cells, and samples per ray."""
PROJECTIONS = ("perspective", "equirectangular")
STEREO = ("side-by-side", "over-under")

MAX_SAMPLES = 1024
"""Largest number of rays per pixel."""


@dataclass(frozen=True)
class RenderOptions:
    """Content and appearance of a image. Lengths are in scene units, except in `crop`.

    A image of several samples per pixel is the mean of as many images, whose rays differ in
    their position in the pixel and on the aperture, and in time. Colors are averaged as linear
    light; distances and normals are weighted by opacity. Raises `InputError` for a value out of
    range, and for options that exclude each other.
    """

    output: str = "rgb"
    """`rgb`; `depth`: distance as in `Rendered`; `normal`: in scene axes; `opacity`; or, only in
    the viewer, one of `DIAGNOSTICS`."""
    background: tuple[float, float, float] | None = (1.0, 1.0, 1.0)
    """sRGB in [0, 1]. None: transparent; PNG and EXR files then have an alpha channel."""
    exposure: float = 0.0
    """Exposure in stops: each doubles the light of image and background. Applies to `rgb`
    only."""
    crop: Box | None = None
    """Lowest and highest corner of the box to show, which is enlarged to whole cells of the
    occupancy grid. Videos take it in the coordinates of the scene's files, the viewer in scene
    coordinates."""
    near: float | None = None
    """Near plane: nothing nearer to the camera is shown. None: `MarchConfig.near`."""
    samples: int = 1
    """Rays per pixel. A single ray goes through the pixel's center."""
    aperture: float = 0.0
    """Radius of the lens aperture; 0: everything is sharp."""
    focus: float | None = None
    """Distance of sharp focus. None: the distance of the point where the training cameras' axes
    meet."""
    projection: str = "perspective"
    """`perspective`, or `equirectangular`: 360 degrees, the camera's forward axis in the middle."""
    stereo: str | None = None
    """`side-by-side`: left eye left; `over-under`: left eye above. None: one eye. The eyes' axes
    are parallel, so distant objects have the same pixels in both."""
    eyes: float = 0.0
    """Distance between the eyes; positive if and only if `stereo` is set."""
    color_map: str = "turbo"
    """`turbo`, `inferno` or `gray`, for `depth`; the nearest distance has the map's last color."""
    depth_range: tuple[float, float] | None = None
    """Nearest and farthest distance of the color map, in scene units. None: estimated from a few
    of the images."""

    def __post_init__(self) -> None:
        checks.choice("output", self.output, (*OUTPUTS, *DIAGNOSTICS))
        checks.choice("projection", self.projection, PROJECTIONS)
        if self.stereo is not None:
            checks.choice("stereo", self.stereo, STEREO)
        checks.number("distance between the eyes", self.eyes, low=0.0)
        if (self.stereo is None) != (self.eyes == 0.0):
            raise InputError(
                "stereo and a distance between the eyes, such as 0.03, go together: --stereo and "
                "--eye-distance"
            )
        checks.choice("color map", self.color_map, MAPS)
        checks.number("samples", self.samples, low=1, high=MAX_SAMPLES, whole=True)
        checks.number("exposure", self.exposure, low=-20.0, high=20.0)
        if self.background is not None:
            _check_triple("background", self.background, 0.0, 1.0)
        elif self.output == "opacity":
            raise InputError("a image of opacity has no background; leave transparent out")
        if self.near is not None:
            checks.number("near", self.near, low=0.0)
        if self.crop is not None:
            object.__setattr__(self, "crop", _checked_box(self.crop))
        if self.depth_range is not None:
            low, high = self.depth_range
            checks.number("depth range", low, low=0.0)
            checks.number("depth range", high, low=low + 1e-9)
        self._check_lens()

    def _check_lens(self) -> None:
        checks.number("aperture", self.aperture, low=0.0)
        if self.focus is not None:
            checks.number("focus", self.focus, low=1e-6)
        if self.aperture and self.projection != "perspective":
            raise InputError("an equirectangular image has no aperture; leave one of them out")
        if self.aperture and self.samples < 2:
            raise InputError("an aperture needs several samples a pixel, such as 32")


def _checked_box(crop: Any) -> Box:
    """The `crop` as tuples; it may be nested lists, as in JSON."""
    try:
        (a, b, c), (d, e, f) = ((float(number) for number in corner) for corner in crop)
    except (TypeError, ValueError) as error:
        raise InputError(f"crop is {crop!r}; expected two corners of three numbers") from error
    _check_triple("crop's lowest corner", (a, b, c), -1e9, 1e9)
    _check_triple("crop's highest corner", (d, e, f), -1e9, 1e9)
    if a >= d or b >= e or c >= f:
        raise InputError(f"crop is {crop}; expected its lowest corner first")
    return (a, b, c), (d, e, f)


def _check_triple(name: str, values: tuple[float, ...], low: float, high: float) -> None:
    if len(values) != 3:
        raise InputError(f"{name} has {len(values)} numbers; expected 3")
    for value in values:
        checks.number(name, value, low=low, high=high)
