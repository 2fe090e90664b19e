"""Scale and shift of measured depths, in scenes whose poses have a scale of their own."""

import logging
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Composited, Goal, load_scene
from nerfmac.app.run.refinements import refinement_report, refinement_summary
from nerfmac.app.scenes.ply_points import write_ply_points
from nerfmac.config import RefineConfig, override
from nerfmac.geometry.depth_maps import DepthMaps
from nerfmac.refine.refinement import DEPTH_SCALE, CameraRefinement
from nerfmac.training.resolve import SceneFacts, resolve
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import LENS, box_points, box_views, map_of
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")

OWN = 0.37  # length of a meter in the units of the poses


@pytest.fixture(scope="module")
def own_scale(tmp_path_factory):
    """A scene as after structure from motion, with depth images in meters."""
    folder = tmp_path_factory.mktemp("scale")
    meters = box_views(20, spread=1.0)
    views = [
        view._replace(pose=np.column_stack([view.pose[:, :3], OWN * view.pose[:, 3]]))
        for view in meters
    ]
    points = np.concatenate([box_points(view.pose, LENS)[0][::5, ::5] for view in meters])
    points = OWN * points.reshape(-1, 3)
    # Some points are hidden behind the walls.
    points[::6] *= 1.5
    depth_scenes.nerfstudio(folder, views, LENS, ply_file_path="points.ply")
    write_ply_points(folder / "points.ply", points, np.zeros(points.shape, np.uint8))
    return load_scene(folder, split="none")


def test_depth_images_have_the_scale_of_the_points(own_scale):
    assert not own_scale.has_metric_depth
    frame = own_scale.splits["train"][3]
    distance, _ = frame.decode_depth()
    want = OWN * own_scale.placement.scale * box_views(20, spread=1.0)[3].depth
    np.testing.assert_allclose(distance, want, rtol=0.02)


def test_a_scene_without_points_keeps_its_meters(tmp_path):
    scene = load_scene(depth_scenes.nerfstudio(tmp_path, box_views(), LENS))
    assert scene.has_metric_depth
    assert scene.views("train").depth.is_metric


def test_too_few_points_do_not_change_the_scale(tmp_path, caplog):
    folder = depth_scenes.nerfstudio(tmp_path, box_views(), LENS, ply_file_path="points.ply")
    write_ply_points(folder / "points.ply", np.ones((3, 3)), np.zeros((3, 3), np.uint8))
    with caplog.at_level(logging.INFO):
        scene = load_scene(folder, split="none")
    distance, _ = scene.splits["train"][0].decode_depth()
    np.testing.assert_allclose(distance, scene.placement.scale * box_views()[0].depth, atol=2e-3)
    assert "are scaled by" not in caplog.text


def test_by_default_the_scale_is_refined_unless_poses_are_metric(own_scale):
    def is_refined(config, views):
        return resolve(config, SceneFacts(own_scale.bounds), views).refine.depth_scale

    views = own_scale.views("train")
    assert is_refined(CONFIG, views) is True
    metric = replace(views, depth=replace(views.depth, is_metric=True))
    assert is_refined(CONFIG, metric) is False
    without_loss = override(CONFIG, train={"sensor": 0.0})
    assert is_refined(without_loss, views) is False


def test_the_loss_has_a_gradient_toward_the_rendered_depth():
    refinement = CameraRefinement(RefineConfig(depth_scale=True), None)
    sensor = mx.array([[2.0, 1.0], [4.0, 0.5], [1.0, 0.0], [1.0, 1.0], [3.0, 1.0]])
    opacity = mx.array([1.0, 0.8, 1.0, 0.1, 1.0])
    rendered = mx.array([2.1, 4.1, 1.05, 1.05, 9.0])
    seen = Composited(mx.zeros((5, 3)), opacity, rendered * opacity)

    def loss(parameters: mx.array) -> mx.array:
        return refinement.depth_scale_loss({DEPTH_SCALE: parameters}, sensor, seen).sum()

    assert float(loss(mx.array([0.1, 0.2]))) == 0.0
    # Only the first two rays have a depth in reach, a confidence, and an opacity.
    slope = np.array(mx.grad(loss)(mx.zeros(2)), np.float64)
    reach = 0.1
    want = -(2.1 / 2.0 + 0.5 * 4.1 / 4.0) / reach, -(2.1 / 4.0 + 0.5 * 4.1 / 16.0) / reach
    np.testing.assert_allclose(slope, want, rtol=1e-5)


def test_measured_depth_is_moved_by_the_refined_values():
    refinement = CameraRefinement(RefineConfig(depth_scale=True), None)
    parameters = {DEPTH_SCALE: mx.array([float(np.log(1.5)), 0.25])}
    got = refinement.measured(parameters, mx.array([[2.0, 0.5]]))
    np.testing.assert_allclose(np.array(got), [[3.25, 0.5]], rtol=1e-6)
    maps = DepthMaps.stack([(np.array([[2.0, 0.0]]), np.array([[0.6, 0.0]]))])
    distance, confidence = map_of(maps.moved(1.5, 0.25), 0)
    np.testing.assert_allclose(distance, [[3.25, 0.0]])
    np.testing.assert_allclose(confidence, [[0.6, 0.0]])
    report = refinement_report(refinement, parameters)
    assert report["depth"] == pytest.approx({"scale": 1.5, "shift": 0.25})
    assert "depths by the factor 1.5000" in refinement_summary(report)


def test_the_scale_does_not_change_before_the_warm_up_and_stays_near_the_truth_after_it(own_scale):
    views = own_scale.views("train")
    config = override(
        CONFIG,
        train={"sensor": 0.03, "rays": 256, "max_rays": 1024},
        refine={"depth_scale": True},
        march={"steps": 256},
    )
    trainer = trainer_of(config, own_scale.bounds, views)
    (*_, early) = trainer.train(initial(trainer), Goal(steps=150))
    assert not np.array(early.state.parameters[DEPTH_SCALE]).any()
    (*_, last) = trainer.train(early.state, Goal(steps=400))
    log_scale, shift = np.array(last.state.parameters[DEPTH_SCALE]).tolist()
    assert log_scale != 0.0 != shift
    typical = float(np.median(map_of(views.depth, 0)[0]))
    assert abs(np.exp(log_scale) + shift / typical - 1.0) < 0.05
