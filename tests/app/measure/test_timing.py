"""Timing of device computations."""

import mlx.core as mx

from nerfmac.app.measure.timing import measure


def test_a_computation_is_run_for_every_call_counted():
    calls = []

    def compute():
        calls.append(1)
        return mx.zeros(3) + 1.0

    timing = measure(compute, seconds=0.0)
    assert timing.calls == 5
    assert len(calls) == 5 + 3  # three to warm up
    assert 0.0 < timing.low <= timing.median <= timing.high
