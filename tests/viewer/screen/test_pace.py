"""Pictures fit the time there is."""

import pytest

from nerfmac.viewer.screen.pace import SCALES, Pace


def settled(cost, seconds, *, full=1280 * 720, overhead=0.0):
    """The pace and the scale where it comes to rest, if a pixel costs `cost` seconds."""
    pace = Pace(seconds, 2**14)
    scales = []
    for _ in range(40):
        scales.append(pace.scale(full))
        pixels = int(full * scales[-1] ** 2)
        pace.learn(pixels, overhead + cost * pixels)
    assert len(set(scales[-5:])) == 1, "it swings"
    return pace, scales[-1]


@pytest.mark.parametrize("overhead", [0.0, 0.008])
@pytest.mark.parametrize("cost", [3e-9, 2e-7, 1.7e-6])
@pytest.mark.parametrize("seconds", [0.025, 0.2])
def test_pictures_come_to_fill_their_time(cost, seconds, overhead):
    full = 1280 * 720
    _, scale = settled(cost, seconds, full=full, overhead=overhead)
    assert scale in SCALES
    taken = overhead + cost * full * scale**2
    assert taken <= 1.25 * seconds
    assert scale == 1.0 or overhead + 2.0 * cost * full * scale**2 > 0.6 * seconds


def test_a_picture_that_is_always_late_becomes_as_small_as_can_be():
    assert settled(1.0, 0.025)[1] == SCALES[-1]


def test_a_picture_that_is_late_once_changes_nothing_and_twice_halves_the_next():
    pace, scale = settled(1e-7, 0.1)
    pixels = int(1280 * 720 * scale**2)
    pace.learn(pixels, 100.0)  # a compiler ran
    assert pace.scale(1280 * 720) == scale
    pace.learn(pixels, 0.07)
    pace.learn(pixels, 100.0)
    assert pace.scale(1280 * 720) == scale
    pace.learn(pixels, 100.0)
    assert pace.scale(1280 * 720) == pytest.approx(scale / 2**0.5)


def test_a_larger_page_has_no_more_pixels():
    pace, scale = settled(1e-6, 0.025)
    assert pace.scale(4 * 1280 * 720) == pytest.approx(scale / 2)


def test_rows_are_a_power_of_two_that_fits():
    assert Pace(0.03, 2**15).rows(width=500) == 64
    assert Pace(0.03, 10).rows(width=500) == 4
    assert Pace(0.03, 2**20).rows(width=1) == 4096
