"""Where a scene begins, in front of all of its cameras."""

from dataclasses import replace

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.run.configuration import facts_of
from nerfmac.config import Config, override
from nerfmac.config.sampling import NEAR
from nerfmac.geometry import NEAR_FRACTION, Bounds, near_plane
from nerfmac.training.resolve import SceneFacts, resolve
from tests.scene_factory import CONFIG

LENS = Lens.from_fov(0.8, 64, 48)
EYES = ((1.7, 0.3, 0.6), (-0.2, 1.9, 0.8), (0.4, -0.8, 1.0))  # the last is the nearest


def cameras():
    return [Camera.look_at(eye, (0.5, 0.5, 0.5), (0, 0, 1), LENS) for eye in EYES]


def thing(count: int = 400) -> np.ndarray:
    way = np.random.default_rng(5).normal(size=(count, 3))
    return 0.5 + 0.2 * way / np.linalg.norm(way, axis=1, keepdims=True)


def nearest(points: np.ndarray) -> float:
    return min(float(np.linalg.norm(points - eye, axis=1).min()) for eye in EYES)


def test_it_is_in_front_of_the_nearest_points_of_the_nearest_camera():
    points = thing()
    assert near_plane(points, cameras()) == pytest.approx(NEAR_FRACTION * nearest(points), rel=0.02)


def test_a_few_wrong_points_right_in_front_of_a_camera_do_not_count():
    points, camera = thing(), cameras()[2]
    wrong = camera.pose[:, 3] - 0.05 * camera.pose[:, 2]
    many = np.concatenate([points, np.tile(wrong, (3, 1))])
    assert near_plane(many, cameras()) == pytest.approx(near_plane(points, cameras()), rel=0.02)


def test_a_scene_with_points_is_trained_from_there_on_and_a_line_says_so(scene, caplog):
    caplog.set_level("INFO", logger="nerfmac")
    plane = near_plane(thing(), scene.cameras("train"))
    pointed = replace(scene, points=thing())
    config = resolve(CONFIG, facts_of(pointed))
    assert config.march.near == plane > NEAR
    assert f"closer than {plane:.2f} to a camera" in caplog.text
    caplog.clear()
    assert resolve(config, facts_of(pointed)) == config
    assert resolve(CONFIG, facts_of(scene)).march.near == NEAR
    assert not caplog.text


def test_training_begins_where_the_scene_does_unless_its_near_is_given(monkeypatch):
    def near(config: Config, plane: float | None) -> float | None:
        monkeypatch.setattr("nerfmac.training.resolve.near_plane", lambda *_: plane)
        return resolve(config, SceneFacts(Bounds(1.0), points=thing())).march.near

    assert [near(CONFIG, plane) for plane in (None, 0.5 * NEAR, 0.4)] == [NEAR, NEAR, 0.4]
    for distance in (0.05, 0.0):
        given = override(CONFIG, march={"near": distance})
        assert near(given, 0.4) == distance
