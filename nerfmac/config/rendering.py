"""`RenderOptions`, the content and appearance of rendered images in videos and in the viewer, and
`VideoOptions`, the file to render to. The documentation of an option is also its help text on the
command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from nerfmac.common import InputError, checks
from nerfmac.config.settings import Range, Settings, Written

Color = tuple[float, float, float]
Corner = tuple[float, float, float]
Box = tuple[Corner, Corner]
"""Lowest and highest corners of an axis-aligned box."""

OUTPUTS = ("rgb", "depth", "normal", "opacity")
DIAGNOSTICS = ("occupancy", "samples")  # Outputs that only the viewer supports.
EXTRA = "extra:"
"""Beginning of the output that shows an additional output of the field, such as `extra:normal`."""
BACKGROUNDS: dict[str, Color] = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}
MAX_SAMPLES = 1024  # Maximum number of rays per pixel.
BLURRED_SAMPLES = 32  # Default number of rays per pixel with depth of field or motion blur.
DEFAULT_FPS, MAX_FPS = 24.0, 1000.0


def numbers(name: str, text: str, count: int, expected: str) -> list[float]:
    """Parse the value `text` of the option `name` as `count` comma-separated numbers."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise InputError(f"{name} is {text!r}; expected {expected}")
    return values


def box(text: str) -> Box:
    """Parse the lowest and the highest corner of a box, written as `X,Y,Z,X,Y,Z`."""
    expected = "six numbers X,Y,Z,X,Y,Z: the lowest and the highest corner"
    a, b, c, d, e, f = numbers("crop", text, 6, expected)
    return (a, b, c), (d, e, f)


def color(text: str, known: Sequence[str] = tuple(BACKGROUNDS)) -> Color:
    """Return the sRGB color in [0, 1] of a color name or of `R,G,B` with values from 0 to 255.
    Error messages list the `known` names."""
    if text in BACKGROUNDS:
        return BACKGROUNDS[text]
    expected = f"{', '.join(known)} or R,G,B such as 40,40,60"
    red, green, blue = numbers("background", text, 3, expected)
    return red / 255.0, green / 255.0, blue / 255.0


def _background(text: str) -> Color | Literal["auto"] | None:
    if text == "auto":
        return "auto"
    return None if text == "transparent" else color(text, ("auto", *BACKGROUNDS, "transparent"))


def _depth_range(text: str) -> tuple[float, float]:
    near, far = numbers("depth_range", text, 2, "two distances, such as 0.5,3")
    return near, far


@dataclass(frozen=True)
class RenderOptions(Settings):
    """Content and appearance of a rendered image. Lengths are in scene units, except in `crop`.

    If there are several rays per pixel, an image is the mean of several images. The rays of these
    images have different positions in the pixel and on the aperture, and different times. Colors
    are averaged in linear light. Distances and normals are weighted by opacity.

    In Python, `output` may also be `extra:NAME` for an additional output of the field or, in the
    viewer, one of `DIAGNOSTICS`. `background` is an sRGB color in [0, 1], "auto", or None for a
    transparent background. The corners of `crop` are two triples, in the viewer in scene
    coordinates, and `depth_range` is a pair.

    Raises:
        InputError: If a value is out of range, or options cannot be combined.
    """

    output: Annotated[str, Written("|".join(OUTPUTS))] = "rgb"
    """Quantity to render. depth is the distance from the camera, and normal is in scene axes."""
    background: Annotated[
        Color | Literal["auto"] | None, Written("auto|white|black|transparent|R,G,B", _background)
    ] = "auto"
    """Background color, with R, G, and B from 0 to 255. auto uses the mean color of the training
    images, or white if the images have an alpha channel or the output is not rgb. transparent
    writes an alpha channel to PNG and EXR files."""
    exposure: Annotated[float, Range(-20.0, 20.0)] = 0.0
    """Exposure compensation in stops. A value of 1 doubles the brightness, and a value of -1 halves
    it."""
    crop: Annotated[Box | None, Written("X,Y,Z,X,Y,Z", box)] = None
    """Box to render, specified by its lowest and highest corners in the coordinates of the input
    scene. Density outside the box is not rendered. nerfmac enlarges the box to whole cells of the
    occupancy grid."""
    near: Annotated[float | None, Range(0.0)] = None
    """Distance of the near plane from the camera in scene units. Density closer to the camera is
    not rendered. [default: march.near of the run, but not beyond the surface of the subject]"""
    samples_per_pixel: Annotated[int | None, Range(1, MAX_SAMPLES)] = None
    """Number of rays per pixel. Larger values reduce aliasing but take proportionally longer.
    [default: 1; 32 with depth of field or motion blur]"""
    depth_of_field: Annotated[float, Range(0.0)] = 0.0
    """Radius of the aperture in scene units, such as 0.02. Larger values increase the blur of
    objects that are out of focus. The value 0 disables depth of field."""
    focus: Annotated[float | None, Range(1e-6)] = None
    """Focus distance in scene units. [default: the distance to the point that the training cameras
    look at]"""
    projection: Literal["perspective", "equirectangular"] = "perspective"
    """Camera projection. equirectangular renders a 360 x 180 degree panorama from each camera
    position and adds the metadata for 360 degree players to .mp4 files."""
    stereo: Literal["side-by-side", "over-under"] | None = None
    """Layout of a stereo video, with a full image for each eye. side-by-side places the image of
    the left eye on the left, and over-under places it at the top. The viewing axes are parallel.
    [default: no stereo]"""
    eye_distance: Annotated[float, Range(0.0)] = 0.0
    """Distance between the eyes in scene units, such as 0.03. Required for stereo. Larger values
    increase the impression of depth."""
    colormap: Literal["turbo", "inferno", "gray"] = "turbo"
    """Colormap for the output depth. The last color of the map is the nearest distance."""
    depth_range: Annotated[tuple[float, float] | None, Written("NEAR,FAR", _depth_range)] = None
    """Distances, in scene units, that are mapped to the two ends of the depth colormap. [default:
    the depth range of the video, estimated once for all frames]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not str(self.output).startswith(EXTRA):
            checks.choice("output", self.output, (*OUTPUTS, *DIAGNOSTICS))
        if (self.stereo is None) != (self.eye_distance == 0.0):
            raise InputError(
                f"stereo is {self.stereo} and eye_distance is {self.eye_distance:g}; set both, or "
                "none of them: eye_distance is the distance between the eyes, such as 0.03"
            )
        if self.background is None:
            if self.output == "opacity":
                raise InputError(
                    "a transparent background cannot be combined with opacity output; choose a "
                    "color"
                )
        elif self.background != "auto":
            for channel in checks.finite("background", self.background, (3,)):
                checks.number("background", float(channel), low=0.0, high=1.0)
        if self.crop is not None:
            object.__setattr__(self, "crop", _checked_box(self.crop))
        if self.depth_range is not None:
            low, high = self.depth_range
            checks.number("depth_range", low, low=0.0)
            checks.number("depth_range", high, low=low + 1e-9)
        if self.depth_of_field and self.projection != "perspective":
            raise InputError(
                "depth_of_field cannot be combined with an equirectangular image; remove one of "
                "them"
            )
        if self.depth_of_field and self.samples < 2:
            raise InputError("depth_of_field requires several samples per pixel, such as 32")

    @property
    def samples(self) -> int:
        """Number of rays per pixel of an image of one camera."""
        if self.samples_per_pixel is not None:
            return self.samples_per_pixel
        return BLURRED_SAMPLES if self.depth_of_field else 1

    @property
    def background_color(self) -> Color | None:
        """Background color, white for the background `auto`, or None if it is transparent."""
        return BACKGROUNDS["white"] if self.background == "auto" else self.background

    def over(self, backdrop: Color) -> RenderOptions:
        """Replace the background `auto` of colors.

        Args:
            backdrop: sRGB color in [0, 1] behind the scene, as in `Scene.backdrop`.

        Returns:
            Options with this background, or the same options if the background is another one or
            the output is not `rgb`.
        """
        if self.background != "auto" or self.output != "rgb":
            return self
        return replace(self, background=backdrop)


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


@dataclass(frozen=True)
class VideoOptions(Settings):
    """Video file or folder of numbered files to render to."""

    fps: Annotated[float | None, Range(1.0, MAX_FPS)] = None
    """Frames per second. [default: the rate in a nerfstudio path, otherwise 24]"""
    format: Literal["png", "exr"] = "png"
    """Format of numbered files in a folder. png stores images. exr stores floating-point values,
    such as depth in scene units."""
    resume: bool = False
    """Resume an interrupted rendering. `nerfmac render` resumes an interrupted video without this
    option, because it stores the frames in OUT.frames until the video is complete."""
    overwrite: bool = False
    """Replace an existing video, or existing frames in the folder --out."""
