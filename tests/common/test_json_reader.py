"""Records are written as JSON and read again, and errors name the place of a wrong value."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pytest

from nerfmac.common import Float64Array, InputError
from nerfmac.common.json_reader import UNSAVED, Fields, as_json, read_as


class Corner(NamedTuple):
    name: str
    place: tuple[float, float]


@dataclass(frozen=True)
class Room:
    kind: Literal["hall", "attic"]
    path: Path
    corners: tuple[Corner, ...]
    doors: dict[str, int]
    size: Annotated[Float64Array | None, "meters"] = None
    words: tuple[str, ...] = ()
    area: int | str = 4
    is_lit: bool = False
    cache: str = field(default="", metadata=UNSAVED)


HALL = Room("hall", Path("a/b"), (Corner("left", (1.0, 2.5)),), {"north": 2}, area="large")


def test_a_record_is_read_as_it_was_written():
    json = as_json(HALL)
    assert "cache" not in json
    assert read_as(Room, Fields(json, "room.json")) == HALL
    read = read_as(Room, Fields(json | {"size": [[1, 2], [3, 4.5]], "is_lit": True}, "room.json"))
    np.testing.assert_array_equal(read.size, [[1.0, 2.0], [3.0, 4.5]])
    assert read.is_lit


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "tower"}, 'kind is "tower"; expected one of: hall, attic'),
        ({"corners": [{"name": "left", "place": [1]}]}, "corner 0: place is [1]; expected a list"),
        ({"doors": {"north": 2.5}}, "doors: north is 2.5; expected int, such as 0"),
        ({"is_lit": 1}, "is_lit is 1; expected true or false"),
        ({"size": [1, "x"]}, 'size is [1, "x"]; expected finite numbers'),
        ({"cache": "x"}, "cache is unknown; expected one of: kind, path"),
        ({"path": "x" * 90, "words": ["y" * 90, 3]}, f'words is ["{"y" * 58}...; expected a list'),
        ({"words": [0.125] * 50}, f"words is [{', '.join(['0.125'] * 50)}]; expected a list"),
    ],
)
def test_an_error_names_the_place_and_the_value(change, text):
    with pytest.raises(InputError) as refused:
        read_as(Room, Fields(as_json(HALL) | change, "room.json"))
    assert str(refused.value).startswith("room.json")
    assert text in str(refused.value)


def test_a_missing_value_without_a_default_is_named():
    values = as_json(HALL)
    del values["path"]
    with pytest.raises(InputError, match=r"^room\.json: path is missing$"):
        read_as(Room, Fields(values, "room.json"))
