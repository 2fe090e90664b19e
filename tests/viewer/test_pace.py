"""Pictures fit the time there is, and training and viewing get their shares of it."""

import numpy as np
import pytest

from nerfmac.viewer.pace import SCALES, Pace, Shares


def learned(seconds_per_pixel):
    pace = Pace()
    for _ in range(40):
        pace.learn(1000, 1000 * seconds_per_pixel)
    return pace


@pytest.mark.parametrize("cost", [3e-9, 2e-7, 1.7e-5])
@pytest.mark.parametrize("seconds", [0.025, 0.2, 3.0])
def test_the_scale_is_the_largest_that_fits(cost, seconds):
    pixels = 1280 * 720
    scale = learned(cost).scale(pixels, seconds)
    assert scale in SCALES
    assert pixels * scale**2 * cost <= 1.01 * seconds
    larger = [each for each in SCALES if each > scale]
    assert all(pixels * each**2 * cost > 0.99 * seconds for each in larger)


def test_no_time_at_all_still_gives_a_picture():
    assert learned(1.0).scale(3840 * 2160, 0.01) == SCALES[-1]


def test_a_single_slow_picture_is_half_believed_and_a_fast_one_wholly():
    pace = learned(1e-6)
    pace.learn(1000, 100.0)  # a compiler ran
    assert pace.scale(10**6, 1.0) < 1.0
    pace.learn(1000, 1e-3)
    assert pace.scale(10**6, 1.0) == 1.0


def test_rows_are_a_power_of_two_that_fits():
    rows = learned(1e-6).rows(width=500, seconds=0.033)
    assert rows == 64
    assert learned(1.0).rows(width=500, seconds=0.033) == 4
    assert learned(1e-12).rows(width=1, seconds=0.033) == 4096


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.95])
def test_training_gets_its_share_whatever_a_turn_takes(share):
    rng = np.random.default_rng(5)
    shares, spent = Shares(), {True: 0.0, False: 0.0}
    for _ in range(4000):
        training = not shares.viewing_is_due(share)
        seconds = rng.uniform(0.005, 0.02) if training else rng.uniform(0.02, 0.06)
        shares.spend(seconds, training=training)
        spent[training] += seconds
    assert spent[True] / sum(spent.values()) == pytest.approx(share, abs=0.05)


def test_what_was_long_ago_gives_no_claim():
    shares = Shares()
    shares.spend(100.0, training=True)
    taken = 0
    while shares.viewing_is_due(0.5):
        shares.spend(0.1, training=False)
        taken += 1
    assert taken < 20
