"""Selection of image pairs to match."""

import numpy as np

from nerfmac.app.capture.pairs import in_sequence, in_space

NAMES = [f"{number:02}.jpg" for number in range(24)]


def test_each_is_compared_with_those_that_follow_it_and_no_further():
    pairs = in_sequence(NAMES, 3)
    assert pairs[:4] == [(NAMES[0], NAMES[k]) for k in (1, 2, 3)] + [(NAMES[1], NAMES[2])]
    assert len(pairs) == 3 * 21 + 2 + 1


def ring(turns):
    """Return cameras on a circle of radius 2 that look at its middle."""
    poses = {}
    for name, angle in zip(NAMES, np.linspace(0, 2 * np.pi * turns, len(NAMES)), strict=True):
        back = np.array([np.cos(angle), np.sin(angle), 0])
        right = np.array([-np.sin(angle), np.cos(angle), 0])
        poses[name] = np.column_stack([right, np.cross(back, right), back, 2 * back])
    return poses


def test_a_ring_is_closed_where_it_ends_and_not_across():
    known = in_sequence(NAMES, 4)
    pairs = in_space(ring(1.0), 0.8, known)
    assert (NAMES[0], NAMES[23]) in pairs
    assert (NAMES[0], NAMES[12]) not in pairs, "these see two sides"
    assert not {*pairs} & {*known}
    assert {(int(other[:2]) - int(one[:2])) % 24 for one, other in pairs} <= {*range(20, 24)}


def test_a_half_ring_is_not_closed():
    assert in_space(ring(0.5), 0.6, in_sequence(NAMES, 6)) == []


def test_cameras_in_one_place_that_look_apart_are_not_compared():
    poses = {name: np.column_stack([np.eye(3), np.zeros(3)]) for name in NAMES[:3]}
    turned = np.column_stack([np.diag([-1, 1, -1]), np.zeros(3)])
    pairs = in_space({**poses, NAMES[3]: turned}, 1.0, [])
    assert all(NAMES[3] not in pair for pair in pairs)
    assert len(pairs) == 3
