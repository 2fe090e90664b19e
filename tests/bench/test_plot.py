"""A plot has every curve and mark where its numbers are, and refuses what it cannot draw."""

import numpy as np
import pytest
from PIL import Image

from nerfmac.bench.plot import BOX, COLOURS, Curve, Mark, linear_axis, log_axis, plot_quality
from nerfmac.checks import InputError

RISING = Curve("rising", [(1.0, 10.0), (10.0, 20.0), (100.0, 30.0)])


def drawn(path, curves, **options):
    """Each curve's own pixels (row, column), the legend left out."""
    plot_quality(path / "plot.png", curves, **options)
    with Image.open(path / "plot.png") as picture:
        pixels = np.array(picture.convert("RGB"))
    pixels = pixels[:, : BOX[2] - 200]
    return [np.argwhere((pixels == colour).all(axis=2)) for colour in COLOURS[: len(curves)]]


def test_a_better_curve_stands_above_a_worse_one(tmp_path):
    curves = [Curve(str(k), [(t, t + k) for t in (1.0, 4.0, 9.0)]) for k in (20.0, 15.0, 10.0)]
    rows = [places[:, 0].mean() for places in drawn(tmp_path, curves)]
    assert rows[0] + 30 < rows[1]
    assert rows[1] + 30 < rows[2]


def test_decades_are_equally_long_on_a_logarithmic_axis(tmp_path):
    rising = Curve("rising", [*RISING.points, (1000.0, 40.0)])
    (places,) = drawn(tmp_path, [rising], log_time=True)
    # Ten times the time is ten decibels more: on this axis a straight line.
    slope, offset = np.polyfit(places[:, 1], places[:, 0], 1)
    assert slope < 0
    assert np.abs(places[:, 0] - slope * places[:, 1] - offset).max() < 6
    (places,) = drawn(tmp_path, [rising])
    slope, offset = np.polyfit(places[:, 1], places[:, 0], 1)
    assert np.abs(places[:, 0] - slope * places[:, 1] - offset).max() > 50


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
    assert len(ring) > 40


@pytest.mark.parametrize("marks", [(), (Mark(20.0, "all"),)])
def test_what_is_one_point_has_no_line_in_the_legend(tmp_path, marks):
    curves = [RISING, Curve("published", [(20.0, 25.0)], marks)]
    plot_quality(tmp_path / "plot.png", curves)
    with Image.open(tmp_path / "plot.png") as picture:
        legend = np.array(picture.convert("RGB"))[BOX[3] - 70 : BOX[3], BOX[2] - 200 :]
    line, point = (
        np.argwhere((legend == colour).all(axis=2)) for colour in (COLOURS[0], COLOURS[1])
    )
    assert np.ptp(line[:, 1]) > 30
    assert 4 <= np.ptp(point[:, 1]) < 20
    assert point[:, 1].mean() == pytest.approx(line[:, 1].mean(), abs=1.0)


def test_marks_outside_the_curve_are_not_drawn(tmp_path):
    marks = [Mark(0.5, "early"), Mark(101.0, "late")]
    (plain,), (marked,) = (
        drawn(tmp_path, [each]) for each in (RISING, Curve("rising", RISING.points, marks))
    )
    np.testing.assert_array_equal(plain, marked)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 9.0), (18.2, 35.7), (20.0, 20.0), (-3.0, 99.0), (0.0, 600.0)]
)
def test_a_linear_axis_holds_its_numbers_between_few_round_labels(low, high):
    ticks = linear_axis(low, high).ticks
    assert ticks[0] <= low + 1e-9
    assert high <= ticks[-1] + 1e-9
    assert 2 <= len(ticks) <= 11
    np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0])


@pytest.mark.parametrize(
    ("low", "high"), [(0.017, 600.0), (1.0, 1.0), (3.0, 4.0), (0.1, 10.0), (1e-6, 1e6)]
)
def test_a_logarithmic_axis_holds_its_numbers_between_few_round_labels(low, high):
    axis = log_axis(low, high)
    assert axis.ticks[0] <= low
    assert high <= axis.ticks[-1]
    assert axis.ticks == sorted(set(axis.ticks))
    assert 2 <= len(axis.ticks) <= 16
    assert {f"{tick:e}"[0] for tick in axis.ticks} <= {"1", "2", "5"}


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
