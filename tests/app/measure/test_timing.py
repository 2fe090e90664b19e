"""Progress bars on standard error are removed at the end, and timings are subtracted."""

import pytest

from nerfmac.app.measure.timing import Bar, Timing


def test_a_bar_says_how_far_it_is_and_goes(capsys):
    with Bar("training", 8, "steps") as bar:
        bar.mininterval = 0.0
        for done in (2, 6, 30):
            bar.reach(done)
            assert bar.n == min(done, 8)
    told = capsys.readouterr()
    assert told.out == ""
    shown = [line for line in told.err.split("\r") if line]
    for line, done in zip(shown, (0, 2, 6, 8), strict=False):
        assert line.startswith("training |")
        assert f"{done}/8 steps" in line
        assert line.rstrip().endswith("left")
    assert len(shown) == 5
    assert not shown[-1].strip()


def test_what_is_subtracted_from_a_timing_leaves_its_quartiles_in_order():
    kernel, launch = Timing(0.11, 0.10, 0.12, 5), Timing(0.05, 0.03, 0.09, 5)
    median, low, high, calls = kernel.less(launch)
    assert (low, median, high) == pytest.approx((0.05, 0.06, 0.07))
    assert calls == 5
    assert kernel.less(kernel.times(2.0)) == (0.0, 0.0, 0.0, 5)
