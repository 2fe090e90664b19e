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


def test_a_name_gets_its_ending_once(call):
    assert call(NUMBERS, "withEnding", " video ", ".mp4") == "video.mp4"
    assert call(NUMBERS, "withEnding", "video.MP4", ".mp4") == "video.MP4"
