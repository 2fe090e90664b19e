"""`Shot`: what a film shows of a scene, and how a picture of it is taken."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.rendering.colour_map import MAPS
from nerfmac.rendering.crop import Box

OUTPUTS = ("rgb", "depth", "normal", "opacity")
PROJECTIONS = ("perspective", "equirectangular")
STEREO = ("side-by-side", "over-under")

MOST_SAMPLES = 1024
"""Rays through a pixel."""


@dataclass(frozen=True)
class Shot:
    """How the pictures of a film are taken. Lengths are in scene units, but those of `crop`.

    A picture with several samples is the mean of as many pictures. Each has its rays elsewhere in
    the pixels, on the aperture, and in the time that the shutter is open. Colours are averaged as
    light, distances by how much is seen. Raises InputError.
    """

    output: str = "rgb"
    """`rgb`; `depth`: mean distance of what is seen; `normal`: in the scene's axes; `opacity`."""
    background: tuple[float, float, float] | None = (1.0, 1.0, 1.0)
    """sRGB in [0, 1]; None: transparent, so that pictures and EXR files have an alpha channel."""
    exposure: float = 0.0
    """Stops: each doubles the picture's light, the background's too; of `rgb` only."""
    crop: Box | None = None
    """Lowest and highest corner, in the coordinates of the scene's files: cells of the occupancy
    grid outside it are not shown."""
    near: float | None = None
    """Nothing nearer than this is seen; None: as in training."""
    samples: int = 1
    """Rays through a pixel. A single one goes through its centre."""
    aperture: float = 0.0
    """Radius of the lens's opening: what is nearer or farther than `focus` is blurred."""
    focus: float | None = None
    """Distance at which the picture is sharp; None: that of what the training cameras look at."""
    projection: str = "perspective"
    """`equirectangular`: all around, the camera's forward direction in the middle."""
    stereo: str | None = None
    """`side-by-side`: the left eye's picture, then the right eye's; `over-under`: the left eye's
    above. None: one eye. The eyes look in parallel, so what is far away is at the same pixels."""
    eyes: float = 0.0
    """Distance between the two eyes; more than 0 with `stereo`."""
    colour_map: str = "turbo"
    """Of pictures of depth: `turbo`, `inferno` or `grey`; near is at the map's end."""
    depth_range: tuple[float, float] | None = None
    """Distances at the ends of the colour map; None: estimated from the film's cameras."""

    def __post_init__(self) -> None:
        checks.choice("output", self.output, OUTPUTS)
        checks.choice("projection", self.projection, PROJECTIONS)
        if self.stereo is not None:
            checks.choice("stereo", self.stereo, STEREO)
        checks.number("distance between the eyes", self.eyes, low=0.0)
        if (self.stereo is None) != (self.eyes == 0.0):
            raise InputError(
                "stereo and a distance between the eyes, such as 0.03, go together: --stereo and "
                "--eye-distance"
            )
        checks.choice("colour map", self.colour_map, MAPS)
        checks.number("samples", self.samples, low=1, high=MOST_SAMPLES, whole=True)
        checks.number("exposure", self.exposure, low=-20.0, high=20.0)
        checks.number("aperture", self.aperture, low=0.0)
        if self.background is not None:
            _check_triple("background", self.background, 0.0, 1.0)
        elif self.output == "opacity":
            raise InputError("a picture of opacity has no background; leave transparent out")
        if self.near is not None:
            checks.number("near", self.near, low=0.0)
        if self.crop is not None:
            for name, corner in zip(("lowest", "highest"), self.crop, strict=True):
                _check_triple(f"crop's {name} corner", corner, -1e9, 1e9)
            if any(low >= high for low, high in zip(*self.crop, strict=True)):
                raise InputError(f"crop is {self.crop}; expected its lowest corner first")
        if self.depth_range is not None:
            low, high = self.depth_range
            checks.number("depth range", low, low=0.0)
            checks.number("depth range", high, low=low + 1e-9)
        self._check_lens()

    def _check_lens(self) -> None:
        if self.focus is not None:
            checks.number("focus", self.focus, low=1e-6)
        if not self.aperture:
            return
        if self.projection != "perspective":
            raise InputError("an equirectangular picture has no aperture; leave one of them out")
        if self.samples < 2:
            raise InputError("an aperture needs several samples a pixel, such as 32")


def _check_triple(name: str, values: tuple[float, ...], low: float, high: float) -> None:
    if len(values) != 3:
        raise InputError(f"{name} has {len(values)} numbers; expected 3")
    for value in values:
        checks.number(name, value, low=low, high=high)
