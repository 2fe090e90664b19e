"""The quality of a run as one figure: the PSNR of the test views.

The views that are compared depend only on the scene, so that two figures of a run can be compared,
whichever command measured them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nerfmac.app.run.run import Run
from nerfmac.common.json_reader import read_fields
from nerfmac.rendering.evaluation import evaluate
from nerfmac.rendering.pace import spread

MIN_VIEWS, MAX_VIEWS = 3, 12  # Minimum and maximum number of views, if the scene has as many.
MAX_PIXELS = 8_000_000  # Maximum number of pixels of more than `MIN_VIEWS` views.


def figure_views(sizes: Sequence[tuple[int, int]]) -> list[int]:
    """Return the indices of the test views that the figure compares, in increasing order, from the
    width and height of each test view. If these are not all views, they are evenly spaced."""
    chosen: list[int] = []
    pixels = 0
    for index in spread(len(sizes))[:MAX_VIEWS] if sizes else []:
        width, height = sizes[index]
        pixels += width * height
        if len(chosen) >= MIN_VIEWS and pixels > MAX_PIXELS:
            break
        chosen.append(index)
    return sorted(chosen)


class HeldOut(NamedTuple):
    """Mean PSNR in dB of test views at a training step."""

    psnr: float
    step: int
    views: int  # Number of compared views.
    of: int  # Number of test views of the scene.

    @classmethod
    def measuring(cls, run: Run) -> Generator[tuple[int, int], None, HeldOut]:
        """Measure the current state of a run. Yields the number of compared views and of all views
        to compare, and returns the figure."""
        every = run.views("test", progress=False)
        views, step = every.subset(figure_views(every.cameras.sizes)), run.state.step
        psnr: list[float] = []
        yield 0, len(views.names)
        for view in evaluate(run.renderer, views, blend=run.config.train.blend):
            psnr.append(view.psnr)
            yield len(psnr), len(views.names)
        return cls(float(np.mean(psnr)), step, len(psnr), len(every.names))

    @classmethod
    def read(cls, folder: Path, step: int) -> HeldOut | None:
        """Read the figure from `metrics.json` in a run folder. Return None if the file does not
        exist, belongs to another step, or does not contain the PSNR of whole test views."""
        path = folder / "metrics.json"
        if not path.is_file():
            return None
        values = read_fields(path)
        if values.count("steps", 0) != step or values.is_null("psnr_test"):
            return None
        if values.number("test_row_fraction", 1.0) < 1.0:
            return None
        views, of = values.count("test_views"), values.count("test_views_in_scene")
        return cls(values.number("psnr_test"), step, views, of)
