"""A model on several ranks: its rate compared with one rank, and the time to reach a quality."""

import pytest
from bench_scaling import RankedTraining, table


def training(ranks, rate, points, *, is_alike=True):
    return RankedTraining(ranks, "ring", 96 * ranks, 300, rate, points, is_alike)


def test_the_time_to_a_quality_lies_between_two_looks_at_it():
    points = ((1.0, 20.0), (3.0, 30.0), (5.0, 29.0))
    found = training(1, 1e6, points)
    assert found.seconds_to(22.5) == pytest.approx(1.5)
    assert found.seconds_to(30.0) == 3.0
    assert found.seconds_to(30.1) is None


def test_a_table_compares_with_one_rank_at_a_quality_that_all_had():
    one = training(1, 1e6, ((1.0, 20.0), (2.0, 25.5)))
    two = training(2, 1.75e6, ((1.0, 24.0), (2.0, 27.0)), is_alike=False)
    head, first, second = table([one, two])
    assert "to 25 dB" in head
    assert first.split() == ["1", "96", "300", "1e+06", "1.00", "25.50", "dB", "1.91", "s", "yes"]
    assert second.split()[4] == "1.75"
    assert second.split()[-1] == "NO"
