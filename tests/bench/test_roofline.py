"""Estimates scale as bandwidth and rate do, and say that they are estimates."""

import json

import pytest

from nerfmac.bench.roofline import CHIPS, Chip, estimate, lines, parts, to_json
from nerfmac.bench.work import Sizes
from nerfmac.presets import PRESETS

SIZES = Sizes.of(PRESETS["base"], 1.0, 4096, on_gpu=True)


def test_twice_the_chip_takes_half_the_time():
    chip = Chip("one", 100.0, 5.0)
    once = estimate(SIZES, chip)
    twice = estimate(SIZES, Chip("two", 200.0, 10.0))
    assert twice.cached == pytest.approx(once.cached / 2)
    assert twice.uncached == pytest.approx(once.uncached / 2)


def test_bytes_alone_or_operations_alone_decide_where_the_other_is_free():
    counted = parts(SIZES).values()
    moved = estimate(SIZES, Chip("computes at once", 100.0, 1e9))
    assert moved.uncached == pytest.approx(1e3 * sum(work.anew for work in counted) / 100e9)
    assert moved.cached == pytest.approx(1e3 * sum(work.once for work in counted) / 100e9)
    computed = estimate(SIZES, Chip("moves at once", 1e9, 5.0))
    assert computed.cached == pytest.approx(1e3 * sum(w.operations for w in counted) / 5e12)


def test_an_occupancy_update_counts_by_its_share():
    shared = parts(SIZES)["networks_density (occupancy)"]
    whole = 2 * SIZES.visited * SIZES.networks.density.weights
    assert shared.operations == whole // 16


def test_the_table_says_that_nobody_measured_it():
    text = "\n".join(lines(SIZES, CHIPS))
    assert "ESTIMATE" in text
    assert "nobody has measured" in text
    assert "approximate" in text
    for chip in CHIPS:
        assert f"\n{chip.name} " in text
    values = json.loads(json.dumps(to_json(SIZES, CHIPS)))
    assert [each["name"] for each in values["estimated_not_measured"]] == [c.name for c in CHIPS]
