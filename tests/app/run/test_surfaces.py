"""Depth of a run at sparse points, on the ground plane, and in the built-in scene."""

from dataclasses import replace
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
import still_life_surfaces
from still_life_surfaces import compare, true_surface

from nerfmac import Composited, Rays, builtin_scene_path, load_scene
from nerfmac.app.run import Run, surface_quality
from nerfmac.app.run.outputs import surface_summary
from nerfmac.config import PRESETS, Config, override
from nerfmac.geometry import Bounds, Tracks
from nerfmac.training.resolve import SceneFacts, resolve
from tests.app.scenes.projection import project
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

FLOOR = 0.45
"""Height of the planted floor, in scene units."""


class FloorRenderer:
    """Sees a floor everywhere, too far by a fraction, thin and half transparent."""

    def __init__(self, too_far: float) -> None:
        self.too_far = too_far

    def see(self, rays: Rays, width: int = 0) -> Composited:
        distance = (FLOOR - rays.origin[:, 2]) / rays.direction[:, 2] * (1.0 + self.too_far)
        return Composited(0.5 * rays.direction, mx.full(distance.shape, 0.5), 0.5 * distance)


def seen_by(cameras, points) -> Tracks:
    """Tracks of points in the views of all cameras that look at them."""
    found = [
        (view, project(camera, point), number)
        for view, camera in enumerate(cameras)
        for number, point in enumerate(points)
    ]
    lens = cameras[0].lens
    size = lens.width, lens.height
    inside = [one for one in found if (one[1] > 0).all() and (one[1] < size).all()]
    view, pixel, number = (np.array(column) for column in zip(*inside, strict=True))
    return Tracks(view, pixel, number, points, np.zeros(len(points)))


@pytest.fixture
def run(scene):
    random = np.random.default_rng(6)
    flat = random.uniform(0.2, 0.8, (300, 2))
    points = np.column_stack([flat, np.full(300, FLOOR)])
    held_out = {name: seen_by(scene.cameras(name), points[:40]) for name in ("train", "test")}
    return Run.begin(replace(scene, points=points, held_out=held_out), CONFIG, progress=False)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_field_that_is_right_has_no_error_and_one_too_far_has_its_own(run, monkeypatch, split):
    for error, within_3, within_5 in ((0.0, 1.0, 1.0), (0.04, 0.0, 1.0), (-0.04, 0.0, 1.0)):
        monkeypatch.setattr(Run, "renderer", lambda self, error=error: FloorRenderer(error))
        values = surface_quality(run, split)
        assert values[f"depth_error_median_{split}"] == pytest.approx(abs(error), abs=1e-4)
        assert values[f"depth_error_p90_{split}"] == pytest.approx(abs(error), abs=1e-4)
        assert values[f"depth_within_3_percent_{split}"] == within_3
        assert values[f"depth_points_{split}"] == len(run.images().held_out[split].view)
        assert values[f"plane_within_3_percent_{split}"] == within_3
        assert values[f"plane_within_5_percent_{split}"] == within_5


def test_without_tracks_only_the_plane_is_compared_and_without_points_nothing(run, scene):
    run.source = replace(run.source, held_out={})
    plane = {f"plane_within_{number}_percent_test" for number in (3, 5)}
    assert set(surface_quality(run, "test")) == plane
    run.source = scene
    assert surface_quality(run, "test") == {}
    assert surface_summary({}, "test") == []


@pytest.fixture
def points():
    across = np.random.default_rng(6).uniform(0.2, 0.8, (300, 2))
    return np.column_stack([across, np.full(300, 0.45)])


@pytest.fixture
def tracks(points):
    number = np.arange(len(points))
    view, pixel = np.zeros(len(points), int), np.full((len(points), 2), 4.5)
    return Tracks(view, pixel, number, points, np.zeros(len(points)))


@pytest.mark.parametrize(
    ("has_tracks", "has_floor", "model", "given", "want"),
    [
        (True, True, "hash", {}, (0.0, 0.05, 0.05)),
        (True, False, "hash", {}, (0.01, 0.0, 0.0)),
        (False, True, "hash", {}, (0.0, 0.0, 0.0)),
        (True, False, "small", {}, (0.05, 0.0, 0.0)),
        (True, True, "vanilla", {}, (0.01, 0.0, 0.0)),
        (True, True, "hash", {"depth": 0.0}, (0.0, 0.0, 0.0)),
        (True, True, "hash", {"ground": 0.3}, (0.0, 0.05, 0.3)),
        (True, True, "hash", {"occlusion": 0.2}, (0.2, 0.05, 0.05)),
        (False, False, "hash", {"occlusion": 0.0, "depth": 0.1, "ground": 0.2}, (0.0, 0.1, 0.2)),
    ],
)
def test_the_losses_follow_from_tracks_and_a_floor_unless_the_user_says(
    scene, points, tracks, has_tracks, has_floor, model, given, want
):
    placed = replace(scene, points=points if has_floor else None)
    views = replace(placed.views("train"), tracks=tracks if has_tracks else None)
    preset = PRESETS["small"] if model == "small" else replace(Config(), model=model)
    train = resolve(override(preset, train=given), SceneFacts(Bounds(2.0)), views).train
    assert (train.occlusion, train.depth, train.ground) == want


@pytest.mark.parametrize("has_floor", [True, False])
def test_a_run_stores_what_was_decided_and_says_so(scene, points, tracks, has_floor, caplog):
    caplog.set_level("INFO", "nerfmac")
    if not has_floor:
        points[:, 2] = np.random.default_rng(7).uniform(0.02, 0.98, len(points))
    placed = replace(scene, points=points, tracks=tracks._replace(points=points))
    train = Run.begin(placed, CONFIG, progress=False).config.train
    want = (0.05, 0.05) if has_floor else (0.0, 0.0)
    assert (train.depth, train.ground) == want
    assert ("have a ground plane" in caplog.text) == has_floor


@pytest.fixture(scope="module")
def built_in():
    return load_scene(builtin_scene_path(), max_images=2, downscale=4)


def test_depth_and_normals_that_are_wrong_by_a_known_amount(built_in, monkeypatch):
    def renderer(*_):
        def render(camera):
            distance, normal = true_surface(camera, built_in.placement)
            depth = np.where(np.isfinite(distance), 1.02 * distance, 0.0)
            return SimpleNamespace(depth=mx.array(depth), values=mx.array(turned(normal, 10.0)))

        return SimpleNamespace(render=render)

    monkeypatch.setattr(still_life_surfaces, "ViewRenderer", renderer)
    run = SimpleNamespace(model=SimpleNamespace(trained=lambda _: None), state=None, scene=built_in)
    errors, angle = compare(run, built_in.cameras("test"))
    assert (errors.median, errors.p90) == (pytest.approx(0.02, abs=1e-5),) * 2
    assert angle == pytest.approx(10.0, abs=0.1)


def turned(normal: np.ndarray, degrees: float) -> np.ndarray:
    """Return unit vectors (n, 3) at an angle from the normals; a normal may be 0."""
    across = np.cross(normal, [0.3, 0.5, 0.81])
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-9)
    angle = np.radians(degrees)
    return np.cos(angle) * normal + np.sin(angle) * across
