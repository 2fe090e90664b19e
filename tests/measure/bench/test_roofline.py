"""Estimates come from recorded launches, scale with the chip, and say that they are estimates."""

import json

import pytest

from nerfmac.config import override
from nerfmac.config.presets import PRESETS
from nerfmac.measure.bench.roofline import CHIPS, Chip, Roofline

BASE = PRESETS["base"]


def estimate(chip):
    (only,) = Roofline(BASE, [chip]).estimates()
    return only


def test_twice_the_chip_takes_half_the_time():
    once, twice = estimate(Chip("one", 100.0, 5.0)), estimate(Chip("two", 200.0, 10.0))
    assert twice.cached == pytest.approx(once.cached / 2)
    assert twice.uncached == pytest.approx(once.uncached / 2)
    assert once.cached < once.uncached


def test_a_rarer_occupancy_update_has_a_smaller_part_of_a_step():
    rare = Roofline(override(BASE, occupancy={"interval": 2 * BASE.occupancy.interval})).work
    often = Roofline(BASE).work
    updates = [name for name in often if name.endswith("(occupancy)")]
    assert len(updates) > 8
    for name in updates:
        assert often[name].cached // 2 == pytest.approx(rare[name].cached, abs=1)


def test_the_table_says_that_nobody_measured_it_and_counts_float_atomics():
    text = "\n".join(Roofline(BASE).lines())
    assert "ESTIMATE" in text
    for chip in CHIPS:
        assert f"\n{chip.name} " in text
    (row,) = (line for line in text.splitlines() if line.startswith("hash_encode_table_gradient"))
    assert row.split()[-1] == "33.55"
    values = json.loads(json.dumps(Roofline(BASE).to_json()))
    assert [each["name"] for each in values["estimated_not_measured"]] == [c.name for c in CHIPS]
    assert values["counted"]["hash_encode_table_gradient"]["atomics"] == 2**25
