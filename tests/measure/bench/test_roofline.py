"""Estimates scale as bandwidth and rate do, and say that they are estimates."""

import json

import pytest

from nerfmac.measure.bench.roofline import CHIPS, Chip, Roofline
from nerfmac.presets import PRESETS
from nerfmac.sampling.marching import ROOM

BASE = PRESETS["base"]


def estimate(chip):
    (only,) = Roofline(BASE, [chip]).estimates()
    return only


def test_twice_the_chip_takes_half_the_time():
    once, twice = estimate(Chip("one", 100.0, 5.0)), estimate(Chip("two", 200.0, 10.0))
    assert twice.cached == pytest.approx(once.cached / 2)
    assert twice.uncached == pytest.approx(once.uncached / 2)


def test_bytes_alone_or_operations_alone_decide_where_the_other_is_free():
    counted = Roofline(BASE).work.values()
    moved = estimate(Chip("computes at once", 100.0, 1e9))
    assert moved.uncached == pytest.approx(1e3 * sum(work.uncached for work in counted) / 100e9)
    assert moved.cached == pytest.approx(1e3 * sum(work.cached for work in counted) / 100e9)
    computed = estimate(Chip("moves at once", 1e9, 5.0))
    assert computed.cached == pytest.approx(1e3 * sum(w.operations for w in counted) / 5e12)


def test_a_step_has_its_part_of_an_occupancy_update():
    roofline = Roofline(BASE)
    sizes = roofline.sizes
    evaluated = sizes.visited + ROOM * BASE.occupancy.followed
    whole = 2 * evaluated * sizes.networks.density.weights
    part = roofline.work["networks_density (occupancy)"].operations
    assert part == whole // BASE.occupancy.interval


def test_the_table_says_that_nobody_measured_it():
    text = str(Roofline(BASE))
    assert "ESTIMATE" in text
    assert "nobody has measured" in text
    assert "approximate" in text
    for chip in CHIPS:
        assert f"\n{chip.name} " in text
    values = json.loads(json.dumps(Roofline(BASE).to_json()))
    assert [each["name"] for each in values["estimated_not_measured"]] == [c.name for c in CHIPS]
