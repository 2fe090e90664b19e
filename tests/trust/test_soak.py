"""Long use leaves nothing: the short form of scripts/soak.py."""

import pytest
import soak

MOST = 20.0  # allowed memory growth in MB: a kernel, a longer list; not something at each step
COUNTS = {"train": 300, "viewers": 4, "frames": 50}


@pytest.mark.parametrize("part", COUNTS)
def test_nothing_is_left(part):
    row = soak.in_a_process(part, COUNTS[part], seed=0)
    assert 0.8 * COUNTS[part] < row.units <= COUNTS[part]
    assert (row.threads, row.processes, row.files) == (0, 0, 0)
    if COUNTS[part] >= 50:  # with fewer, the memory of the first one dominates
        assert row.slope * row.units / 1000.0 < MOST
