"""A plot has every curve where its numbers are."""

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.measure.models import plot_quality

pytest.importorskip("matplotlib", reason="matplotlib is not installed; `pip install matplotlib`")

COLORS = (0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E), (0x2C, 0xA0, 0x2C)  # matplotlib's first three
RISING = [(1.0, 10.0), (10.0, 20.0), (100.0, 30.0)]


def drawn(path, curves, **options):
    """Return the pixels (row, column) of each curve, without the legend."""
    plot_quality(path / "plot.png", curves, **options)
    with Image.open(path / "plot.png") as image:
        pixels = np.array(image.convert("RGB"))[:, :740]
    return [np.argwhere((pixels == color).all(axis=2)) for color in COLORS[: len(curves)]]


def test_decades_are_equally_long_on_a_logarithmic_axis(tmp_path):
    # Ten times the time is ten decibels more: on a logarithmic axis a straight line.
    for log_time, is_straight in ((True, True), (False, False)):
        (places,) = drawn(tmp_path, {"rising": RISING}, log_time=log_time)
        slope, offset = np.polyfit(places[:, 1], places[:, 0], 1)
        assert slope < 0
        away = np.abs(places[:, 0] - slope * places[:, 1] - offset).max()
        assert (away < 6) == is_straight
