"""The training time that all ranks use."""

from dataclasses import dataclass

import pytest

from nerfmac.training.exchange import Exchange


@dataclass
class Two:
    """Two ranks, of which the first one measures `first` seconds."""

    first: float = 0.0
    size: int = 2

    def number_of_first(self, _own):
        return self.first


@dataclass
class State:
    step: int
    train_seconds: float


def test_between_two_broadcasts_the_time_is_extrapolated(monkeypatch):
    ranks = Two()
    exchange = Exchange(ranks)
    monkeypatch.setattr(exchange, "_of_first", lambda state: state)
    exchange.begin(State(step=10, train_seconds=5.0))
    assert exchange.seconds(12, 99.0) == 5.0  # nothing is known yet
    ranks.first = 7.0
    assert exchange.seconds(14, 99.0, must_agree=True) == 7.0  # 4 steps in 2 s
    assert exchange.seconds(15, 99.0) == pytest.approx(7.5)
    assert exchange.seconds(18, 99.0) == pytest.approx(9.0)
    ranks.first = 7.4
    assert exchange.seconds(16, 99.0, must_agree=True) == 7.4
    assert exchange.seconds(20, 99.0) == pytest.approx(7.4 + 4 * 0.2)
