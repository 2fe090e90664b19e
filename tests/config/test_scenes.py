"""Options of scenes, as a user writes them."""

import pytest

from nerfmac import InputError
from nerfmac.config.scenes import described, split_of, up_of


@pytest.mark.parametrize(
    ("given", "direction"),
    [
        ("auto", None),
        (None, None),
        ("y", (0.0, 1.0, 0.0)),
        ("-z", (0.0, 0.0, -1.0)),
        ("2,3,6", (2 / 7, 3 / 7, 6 / 7)),
        ([2, 3, -6], (2 / 7, 3 / 7, -6 / 7)),
    ],
)
def test_an_up_direction_is_a_unit_vector(given, direction):
    found = up_of(given)
    assert found == (None if direction is None else pytest.approx(direction))


@pytest.mark.parametrize("given", ["w", "0,0,0", "1,2", "1,2,x", [1.0, float("nan"), 0.0], 3])
def test_other_directions_are_refused(given):
    with pytest.raises(InputError, match=r"^up is .*; expected x, y, z"):
        up_of(given)


def test_a_split_is_a_number_a_fraction_names_or_none(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("# held out\nb.png\n\na.png\nb.png\n")
    splits = list(map(split_of, [None, "8", "0.25", "none", str(file), ["b.png", "a.png"]]))
    assert splits == [None, 8, 0.25, "none", ("b.png", "a.png"), ("b.png", "a.png")]
    words = ["from the scene files", "every 8th view", "0.25 of the views", "none", "2 by name"]
    assert list(map(described, splits[:5])) == words
