"""Training's time: what passes between its reports does not count."""

import pytest

from nerfmac.training.clock import Clock


@pytest.fixture
def pass_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("nerfmac.training.clock.time.perf_counter", lambda: now[0])

    def go_by(seconds):
        now[0] += seconds

    return go_by


def test_only_what_passes_while_the_clock_goes_on_counts(pass_time):
    clock = Clock(7.0)
    pass_time(2.0)
    assert clock.read() == 9.0
    pass_time(0.5)
    assert clock.read() == 9.5
    assert clock.lap() == 2.5
    pass_time(30.0)  # the caller's
    clock.go_on()
    pass_time(1.0)
    assert clock.read() == 10.5
    assert clock.lap() == 1.0


def test_a_lap_is_over_after_its_own_seconds(pass_time):
    clock = Clock(7.0)
    assert not clock.is_over(1.0)
    for _ in range(2):
        pass_time(0.75)
        clock.read()
        assert not clock.is_over(1.0)
        pass_time(0.25)
        assert not clock.is_over(1.0), "not read yet"
        clock.read()
        assert clock.is_over(1.0)
        clock.lap()
    pass_time(1e6)
    clock.read()
    assert not clock.is_over(None)
