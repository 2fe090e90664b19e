"""Speed of making a film: rendering alone, encoding alone, and both at once as `film` does."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nerfmac.backend import current_device
from nerfmac.film import FrameRenderer, RenderOptions, write_video
from nerfmac.measure.timing import Bar
from nerfmac.run import Run

FILM = {"cpu": (48, (320, 180))}
"""Number and size of the frames by device; other devices: 1000 frames of 1920 x 1080."""
KEPT = 32
"""Number of rendered frames that are encoded repeatedly to time encoding alone."""


class FilmSpeed(NamedTuple):
    """Frames per second of rendering, of encoding and of both at once."""

    size: tuple[int, int]
    frames: int
    rendered: float  # frames per second of rendering alone
    encoded: float  # frames per second of encoding alone
    both: float  # frames per second of the film
    overlap: float  # both / min(rendered, encoded): 1 if neither waits for the other

    def lines(self) -> list[str]:
        """The printed table."""
        width, height = self.size
        return [
            f"a film of {self.frames} frames of {width}x{height}, frames per second:",
            f"rendering alone {self.rendered:8.1f}",
            f"encoding alone  {self.encoded:8.1f}",
            f"both at once    {self.both:8.1f}   {100.0 * self.overlap:.0f} % of the slower one",
        ]


def time_film(
    run: Run, frames: int | None = None, size: tuple[int, int] | None = None
) -> FilmSpeed:
    """Time a film of `run`'s orbit, which is thrown away, and its rendering and encoding alone.

    `frames` and `size` default to `FILM`. Raises `InputError` if no video can be written here.
    """
    usual = FILM.get(current_device(), (1000, (1920, 1080)))
    count, size = frames or usual[0], size or usual[1]
    takes = [[camera] for camera in run.orbit(count, size)]
    source = FrameRenderer(run, RenderOptions())
    with tempfile.TemporaryDirectory() as folder, Bar("film", 3.0 * count, "frames") as bar:
        path = Path(folder) / "film.mp4"

        def shown(pictures: Iterator[np.ndarray], before: int) -> Iterator[np.ndarray]:
            for index, picture in enumerate(pictures):
                yield picture
                bar.reach(before + index + 1)

        def written(pictures: Iterator[np.ndarray]) -> None:
            write_video(path, pictures, 24.0)

        kept = [*islice(source.pictures(takes), KEPT)]  # compiles, too
        both = _rate(count, lambda: written(shown(source.pictures(takes), 0)))
        rendered = _rate(count, lambda: [None for _ in shown(source.pictures(takes), count)])
        again = islice(cycle(kept), count)
        encoded = _rate(count, lambda: written(shown(again, 2 * count)))
    return FilmSpeed(size, count, rendered, encoded, both, both / min(rendered, encoded))


def _rate(count: int, make: Callable[[], object]) -> float:
    start = time.perf_counter()
    make()
    return count / (time.perf_counter() - start)
