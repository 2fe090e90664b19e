"""Detection of cameras that contradict the image order because of repeated structure."""

import numpy as np
import pytest

from nerfmac.app.capture.pairs import MATCHED, check_folds, in_sequence, is_walk, linked

NAMES = [f"{number}.jpg" for number in range(24)]
"""Names in image order. The alphabetical order differs, because 10.jpg follows 9.jpg."""


def ring(degrees):
    """Return a pose for each of NAMES, at these angles on a circle, looking to its middle."""
    poses = {}
    for name, angle in zip(NAMES, np.radians(degrees), strict=True):
        back = np.array([np.cos(angle), np.sin(angle), 0.0])
        right = np.array([-np.sin(angle), np.cos(angle), 0.0])
        poses[name] = np.stack([right, [0.0, 0.0, 1.0], back, 3.0 * back], axis=1)
    return poses


def alike(reach, count=2 * MATCHED):
    """Return matches of each image with the `reach` that follow it."""
    pairs = in_sequence(NAMES, reach)
    return {(min(pair), max(pair)): count for pair in pairs}


def test_a_walk_around_a_thing_agrees():
    found = check_folds(NAMES, ring(np.arange(24) * 15), alike(3))
    assert found.torn == []
    assert found.groups == [set(NAMES)]


def test_a_fold_tears_neighbors_apart():
    angles = np.arange(24) * 15.0
    angles[16:] -= 180.0
    found = check_folds(NAMES, ring(angles), alike(2))
    assert [len(group) for group in found.groups] == [16, 8]
    assert {(one, other) for one, other, _ in found.torn} == {
        ("14.jpg", "16.jpg"),
        ("15.jpg", "16.jpg"),
        ("15.jpg", "17.jpg"),
    }
    assert found.agreeing == 16
    assert max(found.torn, key=lambda pair: pair[2])[2] == pytest.approx(165.0)
    assert found.folded == found.torn


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(12), np.full(12, 100.0)),
        (np.linspace(-40, 40, 12), np.linspace(140, 220, 12)),
        (np.linspace(0, 80, 12), np.linspace(220, 140, 12)),
    ],
    ids=["two cameras", "face to face", "side by side"],
)
def test_two_rigs_of_fixed_cameras_are_torn_but_not_folded(first, second):
    found = check_folds(NAMES, ring(np.concatenate([first, second])), alike(2))
    assert len(found.torn) == 3
    assert found.folded == []


def test_two_rigs_above_each_other_whose_images_match_at_any_angle_are_not_folded():
    poses = ring(np.tile(np.arange(12) * 15.0, 2))
    found = check_folds(NAMES, poses, alike(3))
    assert found.folded == found.torn != []
    torn = found.torn
    far = {*in_sequence(NAMES, 24)} - {*in_sequence(NAMES)}
    found = check_folds(NAMES, poses, alike(3) | {(min(pair), max(pair)): 90 for pair in far})
    assert (found.torn, found.folded) == (torn, [])


def test_images_that_show_other_things_may_stand_anywhere():
    angles = np.arange(24) * 15.0
    angles[16:] -= 180.0
    matches = alike(2)
    for pair in (("15.jpg", "16.jpg"), ("14.jpg", "16.jpg"), ("15.jpg", "17.jpg")):
        matches[pair] = MATCHED - 1
    found = check_folds(NAMES, ring(angles), matches)
    assert (len(found.groups), found.torn) == (2, [])
    assert found.agreeing == 24, "two walks, each of which agrees"


def test_images_far_apart_in_order_that_are_alike_by_chance_are_not_torn():
    angles = np.arange(24) * 15.0
    angles[16:] -= 180.0
    matches = alike(2)
    for pair in (("15.jpg", "16.jpg"), ("14.jpg", "16.jpg"), ("15.jpg", "17.jpg")):
        del matches[pair]
    matches["12.jpg", "20.jpg"] = MATCHED
    found = check_folds(NAMES, ring(angles), matches)
    assert (found.torn, found.agreeing) == ([], 24)


def test_what_others_hold_together_is_not_torn():
    matches = alike(1) | {("0.jpg", "9.jpg"): 99}
    found = check_folds(NAMES, ring(np.arange(24) * 10), matches)
    assert (len(found.groups), found.torn) == (1, [])


def test_images_without_a_camera_count_in_no_group():
    poses = ring(np.arange(24) * 15)
    del poses["3.jpg"]
    assert check_folds(NAMES, poses, alike(3)).groups == [set(NAMES) - {"3.jpg"}]


def test_an_order_is_a_walk_if_most_neighbors_show_the_same():
    assert is_walk(NAMES, alike(1))
    assert not is_walk(NAMES[::2] + NAMES[1::2], alike(1))
    assert not is_walk(NAMES, alike(1, MATCHED - 1))
    assert not is_walk(NAMES[:1], {})


def test_a_walk_is_linked_up_to_where_it_breaks_off():
    assert linked(NAMES, alike(1)) == 24
    matches = alike(2)
    for pair in (("15.jpg", "16.jpg"), ("14.jpg", "16.jpg"), ("15.jpg", "17.jpg")):
        matches[pair] = MATCHED - 1
    assert linked(NAMES, matches) == 16
    assert linked(NAMES, matches | {("12.jpg", "20.jpg"): MATCHED}) == 24
    assert linked(NAMES, matches | {("1.jpg", "20.jpg"): MATCHED}) == 16, "too far apart in order"
    assert linked([], {}) == 0
