"""The scene cube contains the visible content, even with few sparse points."""

import numpy as np
import pytest

from nerfmac.app.scenes.placement import fit
from nerfmac.app.scenes.sparse_points import patch_medians
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

LENS = Lens.from_fov(1.0, 64, 48)
RANDOM = np.random.default_rng(3)
THING = 0.3 * RANDOM.normal(size=(1000, 3)) * (0.5, 1.0, 0.7)


def poses(count: int = 12) -> list[np.ndarray]:
    """Cameras 3 away from the middle, around it and a little above."""
    angles = 0.2 + 2 * np.pi * np.arange(count) / count
    eyes = np.stack([2.9 * np.cos(angles), 2.9 * np.sin(angles), np.full(count, 0.77)], axis=1)
    return [Camera.look_at(eye, (0, 0, 0), (0, 0, 1), LENS).pose.astype(float) for eye in eyes]


def extent(points: np.ndarray) -> float:
    tangents = [LENS.tangents] * 12
    return fit(poses(), False, "here", points=points, tangents=tangents).extent


def wall(radius: float, count: int) -> np.ndarray:
    """Points all around, as high as the cameras look."""
    angles = 2 * np.pi * np.arange(count) / count
    heights = np.linspace(-0.45, -0.2, count) * radius
    return np.stack([radius * np.cos(angles), radius * np.sin(angles), heights], axis=1)


def test_few_points_on_the_walls_make_the_cube_as_large_as_the_room():
    assert extent(THING) == 4.0
    for radius, side in ((5.5, 4.0), (8.0, 8.0), (14.0, 16.0), (90.0, 16.0)):
        assert extent(np.concatenate([THING, wall(radius, 30)])) == side


def test_what_no_image_shows_does_not_make_the_cube_larger():
    above = np.array([0.0, 0.0, 30.0]) + RANDOM.normal(size=(300, 3))
    assert extent(np.concatenate([THING, above])) == 4.0


def test_a_stray_point_does_not_make_the_cube_larger():
    assert extent(np.concatenate([THING, [[-200.0, 3.0, -50.0]]])) == 4.0


def test_points_that_no_image_shows_count_where_there_are_no_others():
    assert extent(wall(8.0, 30) + (0.0, 0.0, 60.0)) == 16.0


@pytest.mark.parametrize("turned", [False, True])
def test_a_patch_has_the_median_of_the_points_that_are_seen_in_it(turned):
    points = np.array([[0.55, 0.1, -1.0], [1.1, 0.2, -2.0], [-0.55, -0.2, -1.0]])
    hidden = np.array([[0.0, 0.0, 1.0], [0.0, 0.6, -1.0], [-1.2, 0.0, -1.0]])  # behind, above, left
    pose = np.eye(4)[:3]
    if turned:
        pose = Camera.look_at((3, -1, 2), (0.5, 2, 1), (0, 0, 1), LENS).pose.astype(float)
    places = np.concatenate([points, hidden]) @ pose[:, :3].T + pose[:, 3]
    values = np.array([1.0, 3.0, 7.0, 50.0, 60.0, 70.0])
    assert sorted(patch_medians(values, places, [pose], [(1.0, 0.5)])) == [2.0, 7.0]
