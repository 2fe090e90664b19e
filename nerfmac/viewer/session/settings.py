"""`Settings`: what the viewer's controls are set to, checked; the fields are the page's JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.rendering.crop import Box
from nerfmac.viewer.pictures.modes import MODES, Look


@dataclass(frozen=True)
class Settings:
    """The values of all controls but the camera's. Raises `InputError` for a bad value."""

    mode: str = "colour"
    background: str = "#ffffff"
    exposure: float = 0.0  # stops
    crop: Box | None = None  # lowest and highest corner, scene units
    share: float = 0.7  # share of the device's time for training; half of it while the camera moves
    rate: float = 1.0  # factor on the learning rate
    rays: int | None = None  # most rays of a step
    steps: int | None = None  # where training stops
    seconds: float | None = None  # the same, of training time

    def __post_init__(self) -> None:
        checks.choice("mode", self.mode, MODES)
        if not isinstance(self.background, str) or not _HEX.fullmatch(self.background):
            raise InputError(f"background is {self.background!r}; expected such as '#ffffff'")
        checks.number("exposure", self.exposure, low=-4.0, high=4.0)
        checks.number("share", self.share, low=0.0, high=1.0)
        checks.number("rate", self.rate, low=0.1, high=10.0)
        for name in ("rays", "steps"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), low=1, high=2**31, whole=True)
        if self.seconds is not None:
            checks.number("seconds", self.seconds, low=1e-3)
        object.__setattr__(self, "crop", _corners(self.crop))
        _ = self.look  # building it checks the box

    def changed(self, values: dict[str, Any]) -> Settings:
        """These settings with some other values. Raises `InputError`."""
        known = {each.name for each in fields(self)}
        for name in values:
            checks.choice("setting", name, known)
        return replace(self, **values)

    @property
    def look(self) -> Look:
        """How the scene is shown."""
        digits = self.background[1:]
        red, green, blue = (int(digits[i : i + 2], 16) / 255.0 for i in (0, 2, 4))
        return Look(self.mode, (red, green, blue), self.exposure, self.crop)


_HEX = re.compile("#[0-9a-fA-F]{6}")


def _corners(crop: Any) -> Box | None:
    if crop is None:
        return None
    try:
        low, high = (tuple(float(number) for number in corner) for corner in crop)
    except (TypeError, ValueError) as error:
        raise InputError(f"crop is {crop!r}; expected two corners of three numbers") from error
    if len(low) != 3 or len(high) != 3:
        raise InputError(f"crop is {crop!r}; expected two corners of three numbers")
    return (low[0], low[1], low[2]), (high[0], high[1], high[2])
