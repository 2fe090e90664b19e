"""Numbers are written as people read them, and axes have round places."""

import pytest

NUMBERS = "controls/numbers"


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        ("withPrefix", 0, "0"),
        ("withPrefix", 950, "950"),
        ("withPrefix", 999.7, "1 k"),
        ("withPrefix", 1234567, "1.23 M"),
        ("grouped", 1234567, "1\u2009234\u2009567"),
        ("grouped", 999, "999"),
        ("duration", 4.21, "4.2 s"),
        ("duration", 59.6, "1:00"),
        ("duration", 65, "1:05"),
        ("duration", 7207, "2:00:07"),
    ],
)
def test_a_number_reads_as_people_write_it(call, function, value, text):
    assert call(NUMBERS, function, value) == text


@pytest.mark.parametrize(
    ("low", "high", "count", "ticks"),
    [
        (0, 3600, 4, [0, 1000, 2000, 3000]),
        (17.3, 31.2, 3, [20, 25, 30]),
        (0.12, 0.31, 4, [0.15, 0.2, 0.25, 0.3]),
    ],
)
def test_ticks_stand_at_round_numbers(call, low, high, count, ticks):
    assert call(NUMBERS, "roundTicks", low, high, count) == pytest.approx(ticks)


def test_ticks_of_a_logarithmic_axis_are_powers_of_ten_and_parts_of_few(call):
    assert call(NUMBERS, "logTicks", 0.0008, 0.3) == pytest.approx([0.001, 0.01, 0.1])
    assert call(NUMBERS, "logTicks", 0.0015, 0.03) == pytest.approx([0.002, 0.005, 0.01, 0.02])


def test_a_name_gets_its_ending_once(call):
    assert call(NUMBERS, "withEnding", " video ", ".mp4") == "video.mp4"
    assert call(NUMBERS, "withEnding", "video.MP4", ".mp4") == "video.MP4"
