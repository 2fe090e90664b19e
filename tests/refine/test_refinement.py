"""Refinement of cameras and exposures: its effect on rays, colors, and test cameras."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Composited, Lens, Rays, Samples
from nerfmac.app.run.refinements import refinement_report, refinement_summary
from nerfmac.config import RefineConfig
from nerfmac.geometry import Camera, Cameras, exposed as brightened
from nerfmac.refine.lenses import pose_conditioning
from nerfmac.refine.refinement import (
    COLORS,
    EXPOSURES,
    LENSES,
    POSES,
    CameraRefinement,
    align_poses,
    moved_poses,
)
from tests.numerics import assert_matches

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ALL = RefineConfig(poses=True, lenses=True, exposures=True, colors=True)


def cameras() -> Cameras:
    lens, wide = Lens.from_fov(0.7, 20, 16), Lens.from_fov(1.2, 16, 20)
    eyes = ((1.9, 0.6, 0.9), (0.3, 2.4, 0.2), (-0.8, -0.5, 1.6))
    views = [
        Camera.look_at(eye, (0.5, 0.45, 0.55), (0.1, 0, 1), each)
        for eye, each in zip(eyes, (lens, wide, lens), strict=True)
    ]
    return Cameras.stack(views)


def turned_by(turn: np.ndarray) -> np.ndarray:
    """The rotation matrix by the power series of the exponential."""
    x, y, z = turn
    generator = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], float)
    matrix, term = np.eye(3), np.eye(3)
    for order in range(1, 30):
        term = term @ generator / order
        matrix = matrix + term
    return matrix


def test_a_pose_is_turned_about_its_place_and_then_shifted():
    moves = np.array([[0.3, -0.7, 0.2, 1, 2, 3], [0, 0, 0, 0, 0, 0], [2e-4, 0, -1e-4, 0, 0.5, 0]])
    poses = np.array(cameras().poses)
    got = np.array(moved_poses(cameras().poses, mx.array(moves.astype(np.float32))))
    for one, pose, move in zip(got, poses, moves, strict=True):
        np.testing.assert_allclose(one[:, :3], turned_by(move[:3]) @ pose[:, :3], atol=1e-6)
        np.testing.assert_allclose(one[:, 3], pose[:, 3] + move[3:], atol=1e-6)


def seen_by(poses: np.ndarray, which: int, points: np.ndarray) -> np.ndarray:
    own = (points - poses[which, :, 3]) @ poses[which, :, :3]
    return own[:, :2] / -own[:, 2:]


def shown(views: Cameras, matrices: np.ndarray, view: int) -> np.ndarray:
    """Return the effect of the six pose parameters on an image: singular values, in radians."""
    random, poses = np.random.default_rng(view), np.array(views.poses, np.float64)
    own = np.column_stack([random.uniform(-0.3, 0.3, (400, 2)), -np.ones(400)])
    own *= np.linalg.norm(poses[view, :, 3] - 0.5) * random.uniform(0.6, 2.0, (400, 1))
    points, columns = own @ poses[view, :, :3].T + poses[view, :, 3], []
    for axis in np.eye(6, dtype=np.float32):
        move = np.zeros((len(views), 6), np.float32)
        move[view] = 1e-2 * matrices[view] @ axis
        moved = np.array(moved_poses(views.poses, mx.array(move)), np.float64)
        difference = seen_by(moved, view, points) - seen_by(poses, view, points)
        columns.append(1e2 * difference.ravel() / 20)  # the root of the number of points
    return np.linalg.svd(np.stack(columns, axis=1), compute_uv=False)


def test_numbers_of_a_pose_move_what_is_seen_by_about_as_much():
    views = cameras()
    for view in range(len(views)):
        as_they_are = shown(views, np.stack([np.eye(6)] * 3), view)
        conditioned = shown(views, pose_conditioning(views), view)
        assert as_they_are[0] > 6 * as_they_are[-1]
        assert conditioned[0] < 3.5 * conditioned[-1], conditioned
        assert 0.7 < conditioned[0] < 1.4


def sampled(views: Cameras) -> tuple[Samples, Rays, mx.array]:
    """Two samples on each of three rays, and a slot of no ray."""
    view = mx.array([2, 0, 2], mx.int32)
    toward = mx.array([[0.5, 0.4, 0.6], [0.3, 0.5, 0.5], [0.6, 0.7, 0.2]])
    origin = views.poses[view][:, :, 3]
    direction = toward - origin
    direction = direction / mx.linalg.norm(direction, axis=1, keepdims=True)
    ray = mx.array([0, 0, 1, 1, 2, 2, 0], mx.int32)
    distance = mx.array([1.0, 1.5, 1.2, 1.3, 0.7, 2.1, 0.0])
    position = origin[ray] + distance[:, None] * direction[ray]
    start = mx.array([0, 2, 4, 6], mx.int32)
    samples = Samples(position, distance, distance, ray, start, mx.full(3, 2, mx.int32))
    return samples, Rays(origin, direction), view


def test_the_gradient_of_poses_is_that_of_samples_that_move_with_their_cameras():
    views = cameras()
    refinement = CameraRefinement(RefineConfig(poses=True), views)
    samples, rays, view = sampled(views)
    weights = mx.random.normal((6, 3), key=mx.random.key(1))
    along = mx.random.normal((3, 3), key=mx.random.key(2))

    def loss(poses: mx.array) -> mx.array:
        warped, moved = refinement.warp_samples({POSES: poses}, samples, rays, view)
        position = warped.position[:6]
        return (weights * mx.square(position)).sum() + (along * moved.direction).sum()

    def moved(poses: np.ndarray) -> float:
        after = np.array(refinement.cameras({POSES: mx.array(poses)}).poses, np.float64)
        before = np.array(views.poses, np.float64)
        turn = after[:, :, :3] @ before[:, :, :3].swapaxes(1, 2)
        which = np.array(view)
        direction = np.einsum("rij,rj->ri", turn[which], np.array(rays.direction, np.float64))
        ray = np.array(samples.ray)[:6]
        position = after[which[ray], :, 3]
        position = position + np.array(samples.distance)[:6, None] * direction[ray]
        return float((np.array(weights) * position**2).sum() + (np.array(along) * direction).sum())

    got = np.array(mx.grad(loss)(mx.zeros((3, 6))))
    want = np.zeros((3, 6))
    for place in np.ndindex(3, 6):
        step = np.zeros((3, 6), np.float32)
        step[place] = 1e-2
        want[place] = (moved(step) - moved(-step)) / 2e-2
    assert not got[1].any(), "no ray is of this view"
    assert np.abs(want[[0, 2]]).min() > 0.01
    assert_matches(got, want, rel=2e-3, name="d poses")


def test_warping_changes_no_value():
    refinement = CameraRefinement(RefineConfig(poses=True), cameras())
    samples, rays, view = sampled(cameras())
    learned = {POSES: mx.random.normal((3, 6), key=mx.random.key(3))}
    warped, moved = refinement.warp_samples(learned, samples, rays, view)
    assert mx.array_equal(warped.position, samples.position)
    assert mx.array_equal(moved.direction, rays.direction)


def seen(color: mx.array, opacity: mx.array) -> Composited:
    return Composited(color * opacity[:, None], opacity, mx.ones(opacity.shape))


def test_exposures_multiply_light_in_each_color_relative_to_their_mean():
    refinement = CameraRefinement(RefineConfig(exposures=True), cameras())
    stops = np.array([[1.0, 0.5, 0.0], [-1.0, 0.0, 0.0], [0.0, -0.5, 0.0]])
    learned = {EXPOSURES: mx.array(np.log(2.0) * (stops + 3.0))}  # their mean is taken away
    color = mx.array([[0.3, 0.6, 0.02], [0.5, 0.2, 0.7], [0.9, 0.1, 0.4], [0.6, 0.6, 0.6]])
    opacity = mx.array([1.0, 0.4, 0.9, 0.0])
    view = mx.array([1, 0, 0, 2], mx.int32)
    black, white = mx.zeros(color.shape), mx.ones(color.shape)
    got = refinement.expose(seen(color, opacity), learned, view, black)
    over = refinement.expose(seen(color, opacity), learned, view, white).color
    for ray, (which, channel) in enumerate(zip(view.tolist(), [0, 0, 1, 2], strict=True)):
        want = brightened(color[ray, channel], stops[which, channel])
        value = got.color[ray, channel] / mx.maximum(opacity[ray], 1e-9)
        if float(opacity[ray]):
            assert float(value) == pytest.approx(float(want), abs=1e-5)
    assert mx.array_equal(got.opacity, opacity)
    assert not got.color[3].any(), "a ray that sees nothing stays black"
    np.testing.assert_allclose(over, got.color + 1.0 - opacity[:, None], atol=1e-6)


def test_exposures_have_gradients_that_are_finite_in_the_dark_and_where_nothing_is():
    refinement = CameraRefinement(RefineConfig(exposures=True), cameras())
    color, opacity = mx.array([[0.0, 0.3, 1.0]] * 3), mx.array([0.0, 0.5, 1.0])
    view = mx.array([0, 1, 1], mx.int32)

    def loss(exposures: mx.array, opacity: mx.array) -> mx.array:
        given = seen(color, opacity)
        black = mx.zeros(color.shape)
        return refinement.expose(given, {EXPOSURES: exposures}, view, black).color.sum()

    for gradient in mx.grad(loss, argnums=(0, 1))(mx.zeros((3, 3)), opacity):
        assert mx.all(mx.isfinite(gradient))
        assert np.abs(np.array(gradient)).max() > 0.1


def test_colors_are_mapped_affinely_relative_to_the_mean_of_all_maps():
    refinement = CameraRefinement(RefineConfig(colors=True), cameras())
    maps = np.random.default_rng(3).normal(scale=0.1, size=(3, 12)).astype(np.float32)
    color = mx.array([[0.3, 0.6, 0.02], [0.5, 0.2, 0.7], [0.9, 0.1, 0.4]])
    opacity, view = mx.array([1.0, 0.4, 0.0]), mx.array([1, 0, 2], mx.int32)
    black, white = mx.zeros(color.shape), mx.ones(color.shape)
    got = refinement.expose(seen(color, opacity), {COLORS: mx.array(maps)}, view, black)
    over = refinement.expose(seen(color, opacity), {COLORS: mx.array(maps)}, view, white).color
    np.testing.assert_allclose(over, got.color + 1.0 - opacity[:, None], atol=1e-6)
    own = (maps - maps.mean(axis=0))[[1, 0, 2]].astype(float)
    mixed = np.einsum("rij,rj->ri", np.eye(3) + own[:, :9].reshape(3, 3, 3), np.array(color))
    want = (mixed + own[:, 9:]) * np.array(opacity)[:, None]
    np.testing.assert_allclose(got.color, want, atol=1e-6)
    assert not got.color[2].any(), "a ray that sees nothing stays black"
    alike = {COLORS: mx.array(maps[:1].repeat(3, axis=0))}
    same = refinement.expose(seen(color, opacity), alike, view, black).color
    np.testing.assert_allclose(same, seen(color, opacity).color, atol=1e-7)


def test_a_color_map_follows_the_exposure_and_changes_no_background():
    color, opacity = mx.array([[0.3, 0.6, 0.1], [0.5, 0.2, 0.7]]), mx.array([0.8, 0.5])
    view, background = mx.array([1, 0], mx.int32), mx.full((2, 3), 0.6)
    learned = {
        EXPOSURES: mx.random.normal((3, 3), key=mx.random.key(1)),
        COLORS: 0.1 * mx.random.normal((3, 12), key=mx.random.key(2)),
    }
    given = seen(color, opacity)
    exposures, maps, both, neither = (
        CameraRefinement(RefineConfig(exposures=a, colors=b), cameras())
        for a, b in ((True, False), (False, True), (True, True), (False, False))
    )
    got = both.expose(given, learned, view, background).color
    black = mx.zeros(color.shape)
    exposed = exposures.expose(given, learned, view, black)
    np.testing.assert_allclose(
        got, maps.expose(exposed, learned, view, background).color, atol=1e-6
    )
    same = neither.expose(given, learned, view, background).color
    np.testing.assert_allclose(same, given.color + 0.6 * (1.0 - opacity[:, None]), atol=1e-6)


def test_rates_fall_with_the_fields_and_by_their_own_factor():
    config = replace(ALL, pose_rate=2e-3, exposure_rate=5e-3, final_rate=0.04)
    rates = CameraRefinement(config, cameras()).rates(257, 0.5, 0.5)
    assert rates[POSES].rate == pytest.approx(0.5 * 0.2 * 2e-3)
    assert rates[EXPOSURES].rate == pytest.approx(0.5 * 0.2 * 5e-3)
    assert (rates[POSES].step, rates[LENSES].step, rates[COLORS].step) == (33, 33, None)


def test_every_eighth_step_counts_for_cameras():
    refinement = CameraRefinement(ALL, cameras())
    assert [refinement.rates(step, 1.0, 0.0)[POSES].step for step in (0, 8, 16)] == [1, 2, 3]


def test_rates_of_cameras_rise_from_nothing_and_those_of_images_do_not():
    refinement = CameraRefinement(replace(ALL, pose_rate=2e-3, lens_rate=1e-3), cameras())
    first, quarter, last = (refinement.rates(step, 1.0, 0.0) for step in (0, 62.5, 300))
    assert [each[POSES].rate for each in (first, quarter, last)] == [0.0, 5e-4, 2e-3]
    assert [each[LENSES].rate for each in (first, quarter, last)] == [0.0, 2.5e-4, 1e-3]
    assert {each[COLORS].rate for each in (first, quarter, last)} == {1e-3}


LENS = Lens.from_fov(0.7, 20, 16)


def poses(count: int) -> np.ndarray:
    random = np.random.default_rng(count)
    eyes = random.normal(size=(count, 3)) + (2.0, 0.5, 0.1)
    return np.stack(
        [Camera.look_at(eye, (0.5, 0.4, 0.6), (0, 0.1, 1), LENS).pose for eye in eyes]
    ).astype(float)


def similar(given: np.ndarray) -> np.ndarray:
    """The poses turned by about 40 degrees, made 1.3 times as large, and shifted."""
    zero = np.zeros((1, 3, 4), np.float32)
    zero[0, :, :3] = np.eye(3)
    move = mx.array([[0.5, -0.3, 0.4, 0, 0, 0]])
    turn = np.array(moved_poses(mx.array(zero), move))[0, :, :3].astype(float)
    place = 1.3 * given[:, :, 3] @ turn.T + (0.2, -0.7, 0.1)
    return np.concatenate([turn @ given[:, :, :3], place[:, :, None]], axis=2)


@pytest.mark.parametrize("count", [2, 7])
def test_poses_move_by_the_similarity_that_moved_others(count):
    others = poses(5)
    got = align_poses(others, poses(count), similar(poses(count)))
    np.testing.assert_allclose(got, similar(others), atol=1e-6)


def test_one_camera_alone_says_how_to_turn_and_to_shift():
    given = poses(1)
    got = align_poses(given, given, similar(given))
    np.testing.assert_allclose(got, similar(given), atol=1e-6)


def test_what_all_cameras_moved_by_on_their_own_moves_no_other():
    given, random = poses(400), np.random.default_rng(1)
    moves = mx.array(random.normal(scale=0.02, size=(400, 6)).astype(np.float32))
    refined = np.array(moved_poses(mx.array(given.astype(np.float32)), moves)).astype(float)
    others = poses(5)
    assert np.abs(align_poses(others, given, refined) - others).max() < 0.01


def points_of(views: Cameras) -> np.ndarray:
    """Points (n, 45, 3) in front of each camera, at five distances."""
    matrices, found = np.array(views.poses, float), []
    for matrix, size, lens in zip(matrices, views.sizes, np.array(views.intrinsics), strict=True):
        depth = np.linalg.norm(matrix[:, 3] - 0.5) * np.array([0.6, 0.8, 1.0, 1.5, 3.0])
        x, y, z = np.meshgrid(*([(-0.4, 0.0, 0.4)] * 2), depth, indexing="ij")
        local = np.stack([x * size[0] / lens[0], y * size[1] / lens[1], -np.ones_like(x)], axis=-1)
        local = (local * z[..., None]).reshape(-1, 3)
        found.append(local @ matrix[:, :3].T + matrix[:, 3])
    return np.stack(found)


def pixels_of(matrices: np.ndarray, views: Cameras, points: np.ndarray) -> np.ndarray:
    local = np.einsum("nij,npi->npj", matrices[:, :, :3], points - matrices[:, None, :, 3])
    focal = np.array(views.intrinsics, float)[:, None, :2]
    return focal * local[..., :2] / -local[..., 2:]


def test_the_report_says_by_how_many_pixels_poses_moved_without_what_all_share():
    views = cameras()
    refinement = CameraRefinement(RefineConfig(poses=True), views)
    values = 3e-3 * np.random.default_rng(5).normal(size=(3, 6)).astype(np.float32)
    values += np.array([0.02, -0.01, 0.015, 0, 0, 0], np.float32)  # mostly shared
    parameters = {POSES: mx.array(values)}
    refined = np.array(refinement.cameras(parameters).poses, float)
    before = np.array(views.poses, float)
    points = points_of(views)
    away = pixels_of(align_poses(refined, refined, before), views, points) - pixels_of(
        before, views, points
    )
    want = np.sqrt(np.square(away).sum(axis=2).mean(axis=1))
    found = refinement_report(refinement, parameters)
    assert found["poses"]["pixels"] == {
        "median": pytest.approx(np.median(want), rel=0.02),
        "largest": pytest.approx(want.max(), rel=0.02),
    }
    assert f"poses by {found['poses']['pixels']['median']:.2f} pixels" in refinement_summary(found)


def test_a_rotation_of_all_cameras_together_moves_no_image():
    views, turn = cameras(), np.array([0.02, -0.01, 0.03])
    places = np.array(views.poses, float)[:, :, 3]
    shifts = places @ turned_by(turn).T - places
    deltas = np.concatenate([np.broadcast_to(turn, (3, 3)), shifts], axis=1)
    values = np.linalg.solve(pose_conditioning(views).astype(float), deltas[:, :, None])[:, :, 0]
    refinement = CameraRefinement(RefineConfig(poses=True), views)
    found = refinement_report(refinement, {POSES: mx.array(values.astype(np.float32))})["poses"]
    assert found["degrees"]["median"] == pytest.approx(np.degrees(np.linalg.norm(turn)), rel=1e-3)
    assert found["pixels"]["largest"] < 1e-3
