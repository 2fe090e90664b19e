"""A camera path's file is read as it was written, or refused by its name and the field."""

import json
import math

import numpy as np
import pytest

from nerfmac.app.paths import CameraPath, Keyframe
from nerfmac.common.checks import InputError

THIRD = 1.0 / 3.0  # has no end in decimals either
TOUR = [
    Keyframe(
        [
            [2 * THIRD, -2 * THIRD, THIRD, 0.1],
            [THIRD, 2 * THIRD, 2 * THIRD, -7e-9],
            [-2 * THIRD, -THIRD, 2 * THIRD, 2**0.5],
        ],
        0.1 + 0.2,
    ),
    Keyframe([[0, 0, 1, -3e5], [1, 0, 0, THIRD], [0, 1, 0, 0]], math.pi / 3),
]


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_saved_is_read_to_the_last_bit(tmp_path, closed):
    CameraPath(TOUR, closed).save(tmp_path / "tour.json")
    read = CameraPath.load(tmp_path / "tour.json")
    assert read.closed is closed
    for got, want in zip(read.keyframes, TOUR, strict=True):
        assert np.array_equal(got.pose, want.pose)
        assert got.fov == want.fov


ROWS = [[1, 0, 0, 0.5], [0, 1, 0, 2], [0, 0, 1, -3]]
GOOD = {"schema": 1, "closed": False, "keyframes": [{"pose": ROWS, "fov": 0.7}] * 2}


def first(**change) -> dict:
    """Return changes of the first keyframe of GOOD; a field that is None is removed."""
    fields = {k: v for k, v in {"pose": ROWS, "fov": 0.7, **change}.items() if v is not None}
    return {"keyframes": [fields, *GOOD["keyframes"][1:]]}


def test_a_file_written_by_hand_is_read(tmp_path):
    (tmp_path / "tour.json").write_text(json.dumps(GOOD))
    tour = CameraPath.load(tmp_path / "tour.json")
    assert np.array_equal(tour.keyframes[1].pose, ROWS)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"schema": 2}, "schema is 2; expected 1"),
        ({"schema": None}, "schema is missing"),
        ({"closed": 0}, "closed is 0; expected true or false"),
        ({"loop": True}, "loop is unknown; expected one of: schema, closed, keyframes"),
        ({"keyframes": []}, r"keyframes is \[\]; expected a list with at least one"),
        ({"keyframes": [3]}, "keyframe 0: expected an object"),
        (first(pose=None), "keyframe 0: pose is missing"),
        (first(time=3), "keyframe 0: time is unknown; expected one of: pose, fov"),
        (first(pose=ROWS[:2]), "keyframe 0: pose is .*; expected 3 rows of 4 numbers"),
        (first(pose=[*ROWS[:2], [0, 0, 1]]), "keyframe 0: pose, row 2 is .*; expected a list of 4"),
        (first(pose=[*ROWS[:2], [0, 0, 1, 1e16]]), "row 2 is .*finite"),
        (first(pose=[*ROWS[:2], [0, 0, 1.1, 1]]), "keyframe 0: pose must be a rotation"),
        (first(pose=[*ROWS[:2], [0, 0, -1, 1]]), "keyframe 0: pose must be a rotation"),
        (first(fov=0), "keyframe 0: fov is 0; expected radians between 0 and pi"),
        (first(fov=3.2), "keyframe 0: fov is 3.2; expected radians between 0 and pi"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_field(tmp_path, change, fault):
    values = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    (tmp_path / "tour.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"tour\.json.*" + fault):
        CameraPath.load(tmp_path / "tour.json")
