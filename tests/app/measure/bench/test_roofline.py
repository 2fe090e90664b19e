"""Estimates come from recorded launches, scale with the chip, and say that they are estimates."""

import json

import pytest

from nerfmac.app.measure.bench.roofline import CHIPS, LAUNCH, Roofline, chip_named, seconds
from nerfmac.app.measure.launches import Work
from nerfmac.backend import using
from nerfmac.config.presets import PRESETS

BASE = PRESETS["base"]


def estimate(chip):
    (only,) = Roofline(BASE, [chip]).estimates()
    return only


def test_the_table_says_that_nobody_measured_it_and_counts_atomics():
    text = "\n".join(Roofline(BASE).lines())
    assert "ESTIMATE" in text
    for chip in CHIPS:
        assert f"\n{chip.name} " in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["hash_encode_table_gradient"][-3:-1] == ["33.55", "0.00"]  # from M3 on
    assert rows["hash_encode_table_units"][-3:-1] == ["0.00", "33.55"]  # on M1 and M2
    values = json.loads(json.dumps(Roofline(BASE).to_json()))
    assert [each["name"] for each in values["estimated_not_measured"]] == [c.name for c in CHIPS]
    first, later = values["counted"].values()
    assert first["hash_encode_table_units"]["integer_atomics"] == 2**25
    assert later["hash_encode_table_gradient"]["float_atomics"] == 2**25


def test_an_m1_would_wait_for_floats_that_are_added_by_a_loop():
    m1, m3 = chip_named("Apple M1"), chip_named("Apple M3 Max")
    fixed, native = estimate(m1), estimate(m3)
    with using(hash_encode_gradient="float"):
        by_loop, same = estimate(m1), estimate(m3)
    assert by_loop.cached > 100.0 > 3 * fixed.uncached
    assert same == native
    measured = {"Apple M1 Max": 30e-3, "Apple M3 Max": 1.2e-3}
    for name, took in measured.items():
        adding = Work(float_atomics=33_500_000)
        assert seconds(adding, chip_named(name), cached=True) == pytest.approx(took, rel=0.01)


def test_each_launch_takes_a_time_of_its_own():
    m1 = chip_named("Apple M1")
    assert seconds(Work(launches=64), m1, cached=True) == pytest.approx(64 * LAUNCH)
