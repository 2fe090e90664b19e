"""Values of the controls of the page, and their ranges.

`Settings` are shared by all pages of a viewer. Each page has its own `Display`.
"""

import re
from dataclasses import dataclass

from nerfmac.common import InputError, checks
from nerfmac.config.rendering import DIAGNOSTICS, EXTRA, Box, Color, RenderOptions

UP = {
    **{"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)},
    **{"-x": (-1.0, 0.0, 0.0), "-y": (0.0, -1.0, 0.0), "-z": (0.0, 0.0, -1.0)},
}
"""Up directions along the axes of the scene."""
HEX_COLOR = re.compile("#[0-9a-fA-F]{6}")
OUTPUT_OF_MODE = {
    "color": "rgb",
    "depth": "depth",
    "normals": "normal",
    "opacity": "opacity",
    **{output: output for output in DIAGNOSTICS},
}
"""`RenderOptions.output` of each viewer mode."""
RANGES: dict[str, tuple[float, float]] = {
    "exposure": (-4.0, 4.0),
    "fov": (10.0, 120.0),
    "fps": (1.0, 240.0),
    "rate": (0.1, 10.0),
    "rays": (64, 2**20),
    "resolution": (64, 8192),
    "seconds": (1e-3, 1e9),
    "share": (0.0, 1.0),
    "steps": (1, 2**31),
    "video_seconds": (0.1, 3600.0),
}
"""Lowest and highest value of each number that users set: the settings, the vertical field of view
in degrees, and the frame rate and duration of a video. Bounds without a decimal point require whole
numbers. The page reads the ranges of its controls from this table."""


def check_ranges(**values: float | None) -> None:
    """Raise `InputError` if a number, keyed by its name in `RANGES`, is outside its range."""
    for name, value in values.items():
        low, high = RANGES[name]
        checks.optional_number(name, value, low=low, high=high, whole=isinstance(low, int))


@dataclass(frozen=True)
class Display:
    """Content and appearance of the images of one page. Field names are the JSON keys."""

    mode: str = "color"
    background: str = "#ffffff"
    exposure: float = 0.0  # Exposure compensation in stops.
    resolution: int | None = None  # Maximum length of the longer side of an image in pixels.

    def __post_init__(self) -> None:
        if not str(self.mode).startswith(EXTRA):
            checks.choice("mode", self.mode, OUTPUT_OF_MODE)
        if not (isinstance(self.background, str) and HEX_COLOR.fullmatch(self.background)):
            raise InputError(
                f"background is {self.background!r}; expected a hexadecimal color such as '#ffffff'"
            )
        check_ranges(exposure=self.exposure, resolution=self.resolution)

    @property
    def color(self) -> Color:
        """Background color (red, green, blue) as sRGB in [0, 1]."""
        red, green, blue = (int(self.background[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
        return red, green, blue

    def options(self, crop: Box | None = None) -> RenderOptions:
        """Return the options for rendering the part of the scene inside `crop`."""
        output = OUTPUT_OF_MODE.get(self.mode, self.mode)
        return RenderOptions(output, self.color, exposure=self.exposure, crop=crop)


@dataclass(frozen=True)
class Settings:
    """Settings of the scene and of its training. Field names are the JSON keys."""

    crop: Box | None = None  # Lowest and highest corner in scene coordinates.
    up: str = "scene"  # Up direction: a key of `UP`, `scene`, or `view`.
    share: float = 0.7  # Fraction of the device time for training, halved while the camera moves.
    rate: float = 1.0  # Factor for the learning rate.
    rays: int | None = None  # Maximum number of rays per step.
    steps: int | None = None  # Total number of steps after which training stops.
    seconds: float | None = None  # Total training time in seconds after which training stops.

    def __post_init__(self) -> None:
        checks.choice("up", self.up, ("scene", *UP, "view"))
        check_ranges(**{name: value for name, value in vars(self).items() if name in RANGES})
        object.__setattr__(self, "crop", RenderOptions(crop=self.crop).crop)  # Checks the box.


def hex_color(color: Color) -> str:
    """Return an sRGB color in [0, 1] as `#rrggbb`."""
    return "#" + "".join(f"{round(255.0 * channel):02x}" for channel in color)
