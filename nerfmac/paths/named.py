"""The moves by the names that users call them by, each with the seconds that suit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nerfmac.geometry.cameras import Camera
from nerfmac.paths.moves import dolly_zoom, figure_of_eight, orbit, spiral


class Move(NamedTuple):
    """A path that is fitted to training cameras."""

    cameras: Callable[..., list[Camera]]
    """Its arguments are those of `orbit`."""
    seconds: float
    """How long it takes, so that it is neither hasty nor dull."""


MOVES = {
    "orbit": Move(orbit, 5.0),
    "spiral": Move(spiral, 10.0),
    "figure-of-eight": Move(figure_of_eight, 6.0),
    "dolly-zoom": Move(dolly_zoom, 5.0),
}

SPLITS = ("train", "test")
"""The views along whose cameras there are tours."""

TOUR_SECONDS = 10.0
"""Of a tour along a split's cameras."""
