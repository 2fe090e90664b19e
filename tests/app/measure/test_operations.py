"""The benchmark of operations times kernel and reference of the same computation."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.measure.benchmark import computations, measure_operations
from nerfmac.app.measure.timing import measure
from nerfmac.backend import kernels_disabled, runs_kernel
from nerfmac.backend.sources import kernels_folder
from nerfmac.config import PRESETS, override

SMALL = override(PRESETS["tiny"], march={"max_samples": 2048}, train={"rays": 64})


def test_a_computation_is_run_for_every_call_counted():
    calls = []

    def compute():
        calls.append(runs_kernel("march"))
        return mx.zeros(3) + 1.0

    timing = measure(compute, seconds=0.0)
    assert timing.calls == 5
    assert len(calls) == 5 + 3  # three to warm up
    assert 0.0 < timing.low <= timing.median <= timing.high


def test_every_operation_is_measured():
    measured = [name for name, _ in computations(SMALL)]
    assert len(set(measured)) == len(measured)
    files = {path.stem for path in kernels_folder().glob("*.metal")}
    assert {name.split()[0] for name in measured} == files
    assert [row.name for row in measure_operations(SMALL, 0.0)] == measured


def test_kernel_and_reference_compute_the_same():
    for name, compute in computations(SMALL):
        got, want = [], []
        mx.eval(by_kernel := compute())
        with kernels_disabled():
            mx.eval(by_reference := compute())
        for kept, tree in ((got, by_kernel), (want, by_reference)):
            _leaves(tree, kept)
        assert len(got) == len(want) > 0
        for one, other in zip(got, want, strict=True):
            assert one.shape == other.shape, name
            total, expected = float(np.sum(one)), float(np.sum(other))
            assert total == pytest.approx(expected, rel=1e-2, abs=1e-2), name


def _leaves(tree, kept):
    if isinstance(tree, mx.array):
        kept.append(np.array(tree.astype(mx.float32)))
    else:
        for branch in tree or ():  # None: samples without a thinning
            _leaves(branch, kept)
