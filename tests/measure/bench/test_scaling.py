"""What ranks gain: as measured, and as estimated from the bytes that they send."""

from math import prod

import pytest

from nerfmac.config import override
from nerfmac.measure.bench.network import (
    Link,
    bytes_sent,
    exchange_seconds,
    ring_of_macs,
    speed_up,
    speed_up_late,
)
from nerfmac.measure.bench.scaling import RankedTraining, table
from nerfmac.presets import PRESETS, preset
from nerfmac.training.trainer import Trainer

LINK = Link("a link", 2.0, 1e-3)


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


def test_a_ring_sends_each_byte_nearly_twice_however_long_it_is():
    # Two ranks: each half once there and once back. Then 2 (N - 1) / N of the bytes a link.
    assert exchange_seconds(10**9, 2, LINK) == pytest.approx(0.5 + 2e-3)
    assert exchange_seconds(10**9, 8, LINK) == pytest.approx(0.875 + 14e-3)


def test_ranks_gain_less_the_longer_an_exchange_is_and_the_more_often():
    assert speed_up(0.01, 0.0, 4, 1) == 4
    assert speed_up(0.01, 0.01, 4, 1) == 2
    assert speed_up(0.01, 0.04, 4, 8) == pytest.approx(4 / 1.5)


def test_large_arrays_are_counted_in_half_precision():
    config = PRESETS["small"]
    sizes = {name: prod(shape) for name, shape in Trainer(config, 1.0).field.shapes.items()}
    small = sizes["density"] + sizes["colour"]
    sent = bytes_sent(config)
    assert (sent.at_once, sent.late) == (4 * small, 2 * sizes["table"])
    assert bytes_sent(override(config, ranks={"words": "float32"})).all == 4 * sum(sizes.values())
    # A network as large as a table is sent at once.
    assert bytes_sent(preset("base", "cpu", 0, "vanilla")).late == 0


def test_a_late_exchange_costs_only_what_outlasts_the_step():
    assert speed_up_late(0.01, 0.0, 0.01, 4) == 4
    assert speed_up_late(0.01, 0.0025, 0.011, 4) == pytest.approx(3.2)
    assert speed_up_late(0.01, 0.0025, 0.04, 4) == pytest.approx(1)


def test_an_estimate_is_called_one():
    lines = list(ring_of_macs(PRESETS["small"], 0.004, "measured here"))
    assert lines[0].startswith("ESTIMATE that nobody has measured: ranks that take 4 ms a step")
    assert sum(line.startswith("Thunderbolt 5") for line in lines) == 3
    heading, first = (line.split() for line in lines[3:5])
    assert heading[-5:] == ["1", "2", "4", "8", "late"]
    assert len(first) == len(heading) + 3  # a name of two words, and "ms"
