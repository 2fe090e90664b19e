"""A plot has every curve and mark where its numbers are, and refuses what it cannot draw."""

import sys

import numpy as np
import pytest
from PIL import Image, ImageColor

from nerfmac.checks import InputError
from nerfmac.measure.bench.plot import COLOURS, Curve, Mark, plot_quality

pytest.importorskip("matplotlib", reason="matplotlib is not installed; `pip install matplotlib`")

RISING = Curve("rising", [(1.0, 10.0), (10.0, 20.0), (100.0, 30.0)])


def drawn(path, curves, **options):
    """Each curve's own pixels (row, column), those of the legend left out."""
    plot_quality(path / "plot.png", curves, **options)
    with Image.open(path / "plot.png") as picture:
        pixels = np.array(picture.convert("RGB"))[:, :740]
    colours = map(ImageColor.getrgb, COLOURS[: len(curves)])
    return [np.argwhere((pixels == colour).all(axis=2)) for colour in colours]


def test_a_better_curve_stands_above_a_worse_one(tmp_path):
    curves = [Curve(str(k), [(t, t + k) for t in (1.0, 4.0, 9.0)]) for k in (20.0, 15.0, 10.0)]
    rows = [places[:, 0].mean() for places in drawn(tmp_path, curves)]
    assert rows[0] + 30 < rows[1]
    assert rows[1] + 30 < rows[2]


@pytest.mark.parametrize("log_time", [True, False])
def test_a_mark_lies_on_its_curve_as_drawn(tmp_path, log_time):
    # Halfway between the second point and the third, as the axis shows them.
    middle = 10.0**1.5 if log_time else 55.0
    curve = Curve("rising", RISING.points, [Mark(middle, "")])
    (plain,), (marked,) = (drawn(tmp_path, [each], log_time=log_time) for each in (RISING, curve))
    known = {tuple(place) for place in plain}
    ring = np.array([place for place in marked if tuple(place) not in known])
    on_curve = plain[np.abs(plain[:, 1] - ring[:, 1].mean()).argmin()]
    np.testing.assert_allclose(ring.mean(axis=0), on_curve, atol=3)
    assert len(ring) > 5


def test_marks_outside_the_curve_are_not_drawn(tmp_path):
    marks = [Mark(0.5, "early"), Mark(101.0, "late")]
    (plain,), (marked,) = (
        drawn(tmp_path, [each]) for each in (RISING, Curve("rising", RISING.points, marks))
    )
    np.testing.assert_array_equal(plain, marked)


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(InputError, match=r"nerfmac\[plot\]"):
        plot_quality(tmp_path / "plot.png", [RISING])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ([], "no curves"),
        ([RISING, Curve("empty", [])], "'empty' has no points"),
        ([Curve("broken", [(1.0, float("nan"))])], "'broken' has a point that is not finite"),
        ([Curve("from zero", [(0.0, 10.0)])], "'from zero' begins at no positive time"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_written(tmp_path, curves, message):
    with pytest.raises(InputError, match=message):
        plot_quality(tmp_path / "plot.png", curves, log_time=True)
    assert not list(tmp_path.iterdir())
