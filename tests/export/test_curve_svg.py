"""The axes of a page's curves hold their numbers."""

import numpy as np
import pytest

from nerfmac.export.curve_svg import linear_axis, log_axis


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
