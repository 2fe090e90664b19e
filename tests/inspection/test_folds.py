"""Cameras that leap where their pictures do not: a thing folded onto itself."""

import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.inspection.folds import fold_findings
from nerfmac.inspection.pictures import Look

NAMES = [f"{number}.jpg" for number in range(36)]
LENS = Lens.from_fov(1.0, 96, 64)


def cameras(degrees):
    """Return cameras at these angles of a circle, which look to its middle."""
    angles = np.radians(degrees)
    eyes = np.stack([2 * np.cos(angles), 2.5 * np.sin(angles), np.full(36, 0.7)], axis=1)
    return [Camera.look_at(eye, (0, 0, 0), (0, 0, 1), LENS) for eye in eyes]


def looks(degrees):
    """Return what is seen at these angles: waves that move as the camera does."""
    columns = np.linspace(0, 3, 32)
    found = []
    for angle in np.radians(degrees):
        thumbnail = 128 + 60 * np.sin(columns[None] + 2 * angle) * np.cos(columns[:, None] - angle)
        found.append(Look(100.0, 128.0, 0.0, 0.0, thumbnail.astype(np.float32)))
    return found


WALK = np.arange(36) * 10.0
FOLDED = np.where(WALK < 180, WALK, WALK - 180)


def test_a_walk_around_a_thing_is_not_named():
    assert fold_findings(NAMES, cameras(WALK), looks(WALK)) == []


def test_a_fold_is_named_where_it_tears(tmp_path):
    (line,) = fold_findings(NAMES, cameras(FOLDED), looks(WALK))
    assert line.startswith("17.jpg and 18.jpg follow each other and look alike, but their cameras")
    assert "look 1" in line


def test_a_leap_between_pictures_that_differ_is_none():
    assert fold_findings(NAMES, cameras(FOLDED), looks(np.where(WALK < 180, WALK, WALK + 90))) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_an_order_that_is_no_walk_says_nothing(seed):
    order = np.random.default_rng(seed).permutation(FOLDED)
    assert fold_findings(NAMES, cameras(order), looks(np.zeros(36))) == []


def test_a_few_pictures_say_nothing():
    some = slice(12, 23)
    found = fold_findings(NAMES[some], cameras(FOLDED)[some], looks(WALK)[some])
    assert found == []
