"""How long a picture takes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from nerfmac.backend import current_device
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.measure.timing import Timing, measure
from nerfmac.run import Run

PICTURE = {"cpu": 200}
"""Pixels along a side of the picture, by device; 800 elsewhere."""


class Frame(NamedTuple):
    """A square picture and the time it takes."""

    side: int  # pixels
    timing: Timing

    @property
    def rays_per_second(self) -> float:
        """Pixels a second."""
        return self.side**2 / self.timing.median * 1e3

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "side": self.side,
            "ms": self.timing._asdict(),
            "rays_per_second": self.rays_per_second,
        }


def time_frame(run: Run, seconds: float) -> Frame:
    """Time a square picture of the trained field, from where the first photograph was taken.

    It is as wide an angle as the photograph; the time is measured for about `seconds`.
    """
    side = PICTURE.get(current_device(), 800)
    camera = run.scene.cameras[0]
    angle = 2.0 * math.atan(0.5 * camera.lens.width / camera.lens.fl_x)
    view = Camera(Lens.from_fov(angle, side, side), camera.pose)
    renderer = run.renderer()
    timing = measure(lambda: renderer.pixels(view, (1.0, 1.0, 1.0)), seconds=seconds)
    return Frame(side, timing)
