"""Depth of a run at sparse points that training did not use, and on the ground plane."""

import json
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.export.report_page import LABELS
from nerfmac.app.run import Run, surface_quality
from nerfmac.app.run.outputs import metrics, surface_summary
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.tracks import Tracks
from nerfmac.ops.composite import Composited
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


def test_points_outside_the_cube_do_not_count(run, monkeypatch):
    monkeypatch.setattr(Run, "renderer", lambda self: FloorRenderer(0.0))
    held_out = run.source.held_out["train"]
    points = held_out.points.copy()
    points[::2, 2] -= 7.0
    run.source = replace(run.source, held_out={"train": held_out._replace(points=points)})
    values = surface_quality(run, "train")
    assert values["depth_points_train"] == (held_out.point % 2).sum()
    assert values["depth_error_p90_train"] < 1e-4


def test_without_tracks_only_the_plane_is_compared_and_without_points_nothing(run, scene):
    run.source = replace(run.source, held_out={})
    assert set(surface_quality(run, "test")) == {
        "plane_within_3_percent_test",
        "plane_within_5_percent_test",
    }
    run.source = scene
    assert surface_quality(run, "test") == {}
    assert surface_summary({}, "test") == []


def test_the_summary_and_the_json_of_a_run_have_the_values(run, monkeypatch):
    monkeypatch.setattr(Run, "renderer", lambda self: FloorRenderer(0.02))
    depth, plane = surface_summary(surface_quality(run, "test"), "test")
    assert "median 2.00 %, 90th percentile 2.0 %; 100 % of the observations" in depth
    assert "100 % of the pixels have a depth error of at most 3 %" in plane
    values = json.loads(json.dumps(metrics(run, [], 2, wall_seconds=1.0)))
    for split in ("test", "train"):
        assert values[f"depth_error_median_{split}"] == pytest.approx(0.02, abs=1e-4)
        assert values[f"plane_within_5_percent_{split}"] == 1.0
        assert {name for name in values if name.startswith(("depth", "plane"))} <= set(LABELS)
