"""How fast a film is made: rendering alone, encoding alone, and both at once as `film` does it."""

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
"""Number and size of the frames, by device; elsewhere 1000 of 1920 x 1080."""
KEPT = 32
"""Pictures that are encoded again and again where nothing is rendered meanwhile."""


class FilmSpeed(NamedTuple):
    """Frames a second."""

    size: tuple[int, int]
    frames: int
    rendered: float  # frames a second, nothing else being done
    encoded: float  # frames a second, nothing else being done
    both: float  # frames a second of the film
    overlap: float  # the film's rate over the slower one's: 1 if neither ever waits for the other

    def lines(self) -> list[str]:
        """The same for people."""
        width, height = self.size
        return [
            f"a film of {self.frames} frames of {width}x{height}, frames a second:",
            f"rendered {self.rendered:8.1f}",
            f"encoded  {self.encoded:8.1f}",
            f"both     {self.both:8.1f}   {100.0 * self.overlap:.0f} % of the slower",
        ]


def time_film(
    run: Run, frames: int | None = None, size: tuple[int, int] | None = None
) -> FilmSpeed:
    """Make a film of `run`'s orbit and throw it away, and its two parts alone.

    `frames` are 1000 of 1920 x 1080 by default, on a CPU 48 of 320 x 180. Raises `InputError` if
    no video can be written here.
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
