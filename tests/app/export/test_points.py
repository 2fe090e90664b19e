"""Points of a field with a known surface."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.export import extract_points
from nerfmac.common.checks import InputError
from tests.app.export.egg import Egg, color_of, distance_to, egg_run, size_of, slope_of

COUNT = 1500


@pytest.fixture(scope="module", autouse=True)
def few_rays_at_a_time():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nerfmac.app.export.points.RAYS", 2**12)
        yield


@pytest.fixture(scope="module")
def points(run):
    return extract_points(run, count=COUNT, progress=False)


@pytest.fixture(scope="module")
def placement(run):
    return run.scene.placement


@pytest.fixture(scope="module")
def on_egg(points, placement):
    """Which points are the egg's, not the crumb's, and where they are in scene space."""
    position = placement.to_scene(points.positions)
    return size_of(position) < 1.1, position


def test_points_lie_on_the_surface(points, on_egg):
    assert points.positions.shape == points.normals.shape == points.colors.shape == (COUNT, 3)
    is_egg, position = on_egg
    assert 0.9 < is_egg.mean() <= 1.0
    away = distance_to(position[is_egg])
    # Light ends about where the optical thickness is one, a little inside of this soft surface.
    assert np.abs(away).mean() < 0.01
    assert np.percentile(np.abs(away), 99) < 0.02


def test_points_have_the_surfaces_normal_and_color(points, on_egg):
    is_egg, position = on_egg
    slope = slope_of(position[is_egg])
    facing = slope / np.linalg.norm(slope, axis=1, keepdims=True)
    assert np.percentile((points.normals[is_egg] * facing).sum(axis=1), 5) > 0.98
    color = 255 * color_of(position[is_egg])
    assert np.abs(points.colors[is_egg] - color).mean() < 2


def test_a_crop_leaves_out_the_rest(run):
    crop = ((-0.2, -0.9, -0.1), (0.3, 0.1, 0.9))
    points = extract_points(run, count=500, crop=crop, progress=False)
    assert (points.positions >= crop[0]).all()
    assert (points.positions <= crop[1]).all()
    assert np.ptp(points.positions[:, 0]) > 0.4


@pytest.mark.parametrize("count", [0, 1.5, 2e8])
def test_a_count_out_of_range_is_refused(run, count):
    with pytest.raises(InputError, match="count is"):
        extract_points(run, count=count)


def test_where_nothing_is_seen_there_are_no_points(run):
    with pytest.raises(InputError, match="no points: the training cameras see no surface"):
        extract_points(run, crop=((1.3, 1.3, 1.3), (1.4, 1.4, 1.4)), progress=False)


def test_a_batch_without_points_is_not_the_end(run, monkeypatch):
    monkeypatch.setattr("nerfmac.app.export.points.RAYS", 4)
    monkeypatch.setattr("nerfmac.app.export.points.FRUITLESS", 100)
    assert len(extract_points(run, count=20, progress=False).positions) == 20


class Haze(Egg):
    """An egg that some light passes, thin at its rim."""

    def density(self, parameters, position):
        return mx.where(size_of(position, mx) < 1.0, 12.0, 0.0)


def test_the_depth_of_a_haze_is_in_the_haze(scene):
    run = egg_run(scene, Haze())
    points = extract_points(run, count=500, progress=False)
    assert size_of(run.scene.placement.to_scene(points.positions)).max() < 1.03


class Pair(Haze):
    """Two walls across x, the nearer one half transparent; between them there is nothing."""

    def density(self, parameters, position):
        x = position[:, 0]
        wall = mx.where((x > 0.6) & (x < 0.62), 35.0, 0.0)
        return mx.where((x > 0.2) & (x < 0.4), 1000.0, wall)


def test_between_two_surfaces_there_are_no_points(scene):
    run = egg_run(scene, Pair())
    points = extract_points(run, count=500, progress=False)
    x = run.scene.placement.to_scene(points.positions)[:, 0]
    assert ((x < 0.41) | (np.abs(x - 0.61) < 0.012)).all()
