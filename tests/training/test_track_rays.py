"""Rays of tracks: their pixels, their targets, and the depth loss."""

from dataclasses import replace
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, Goal, Lens, Samples, Views
from nerfmac.config import override
from nerfmac.geometry import Camera, Cameras, Tracks, distances_of
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.training.priors import penalty_weights
from nerfmac.training.resolve import settled
from nerfmac.training.track_rays import TrackRays, pixels_of
from tests.numerics import assert_matches
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")

DEPTH = settled(override(CONFIG, train={"depth": 0.3}), Bounds(1.0))


def test_pixels_of_views_of_any_size_have_their_indices():
    sizes = [(7, 5), (640, 480), (3, 900), (31, 2), (640, 481)] * 40
    lenses = [Lens.from_fov(1.0, *size) for size in sizes]
    cameras = Cameras.stack(
        [Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens) for lens in lenses]
    )
    random = np.random.default_rng(2)
    view = random.integers(0, len(sizes), 3000)
    pixel = random.uniform(size=(3000, 2)) * np.array(sizes)[view]
    first = np.cumsum([0, *(w * h for w, h in sizes)])[view]
    column, row = np.floor(pixel).astype(int).T
    want = first + row * np.array(sizes)[view, 0] + column
    np.testing.assert_array_equal(pixels_of(cameras, view, pixel), want)


def with_tracks(scene, count: int = 40) -> Views:
    """The training views with tracks of points near the scene's middle, of rising errors."""
    views = scene.views("train")
    random = np.random.default_rng(5)
    points = random.uniform(0.35, 0.65, (count, 3))
    view, point = np.nonzero(random.uniform(size=(len(views.names), count)) < 0.6)
    pixel = random.uniform(0.0, 1.0, (len(view), 2)) * views.cameras.sizes[0]
    return replace(views, tracks=Tracks(view, pixel, point, points, 0.1 * np.arange(count)))


def test_the_first_rays_are_those_of_observations_and_the_others_stay(scene):
    views = with_tracks(scene)
    rays = TrackRays.of(views, DEPTH, Bounds(1.0))
    fraction = mx.random.uniform(shape=(500,), key=mx.random.key(3))
    index = mx.random.randint(0, views.cameras.pixels, (500,), key=mx.random.key(4))
    drawn, targets = rays.draw(index, fraction, 200)
    tracks = views.tracks
    chosen = (np.array(fraction[:200]) * len(tracks.view)).astype(int)
    width, height = views.cameras.sizes[0]
    column, row = np.floor(tracks.pixel[chosen]).astype(int).T
    want = (tracks.view[chosen] * height + row) * width + column
    np.testing.assert_array_equal(np.array(drawn[:200]), want)
    assert mx.array_equal(drawn[200:], index[200:])
    assert len(set(chosen)) > 80
    distance = distances_of(tracks, np.array(views.cameras.poses[:, :, 3]))[chosen]
    np.testing.assert_allclose(np.array(targets[:, 0]), distance, rtol=1e-6)
    error = tracks.error[tracks.point]
    confidence = np.exp(-((error / error.mean()) ** 2))[chosen]
    np.testing.assert_allclose(np.array(targets[:, 1]), confidence, rtol=1e-5)
    assert np.ptp(confidence) > 0.9


def test_points_that_training_cannot_reach_are_left_out(scene):
    views = with_tracks(scene)
    far = views.tracks.points.copy()
    far[::2] += 3.0
    views = replace(views, tracks=views.tracks._replace(points=far))
    is_near = views.tracks.point % 2 == 1
    assert TrackRays.of(views, DEPTH, Bounds(1.0)).pixel.shape[0] == is_near.sum()
    distance = distances_of(views.tracks, np.array(views.cameras.poses[:, :, 3]))
    middle = float(np.median(distance[is_near]))
    beyond = override(DEPTH, march={"near": middle})
    left = TrackRays.of(views, beyond, Bounds(1.0)).pixel.shape[0]
    assert left == (is_near & (distance > middle)).sum()
    assert TrackRays.of(views, override(DEPTH, march={"near": 50.0}), Bounds(1.0)) is None


def test_the_spread_is_a_step_of_training_at_the_distance(scene):
    views = with_tracks(scene)
    table = np.array(TrackRays.of(views, DEPTH, Bounds(1.0)).targets)
    np.testing.assert_allclose(table[:, 2], DEPTH.march.step, rtol=1e-6)
    cone = DEPTH.march.step / float(np.median(table[:, 0]))  # steps grow from half of the points on
    growing = override(DEPTH, march={"cone": cone})
    wide = np.array(TrackRays.of(views, growing, Bounds(4.0)).targets)
    want = np.maximum(growing.march.step, growing.march.cone * wide[:, 0])
    assert 0 < (want > growing.march.step).sum() < len(want)
    np.testing.assert_allclose(wide[:, 2], want, rtol=1e-6)


STARTS = (0, 4, 4, 9, 12, 20, 24)  # six rays, three of them with a track
SLOTS, TRACKED = 26, 3


def samples_of_rays() -> Samples:
    random = np.random.default_rng(8)
    distance = np.zeros(SLOTS, np.float32)
    ray = np.zeros(SLOTS, np.int32)
    for index, (begin, end) in enumerate(pairwise(STARTS)):
        distance[begin:end] = 1.0 + np.cumsum(random.uniform(0.05, 0.2, end - begin))
        ray[begin:end] = index
    width = random.uniform(0.05, 0.2, SLOTS).astype(np.float32)
    start = mx.array(STARTS, mx.int32)
    arrays = mx.zeros((SLOTS, 3)), mx.array(distance), mx.array(width), mx.array(ray)
    return Samples(*arrays, start, start[1:] - start[:-1])


# Distance, confidence, and standard deviation.
KNOWN = mx.array([[1.3, 0.9, 0.1], [1.2, 0.5, 0.1], [1.45, 0.7, 0.15]])


def losses_of(density: mx.array) -> mx.array:
    """The depth loss of each ray, (rays,)."""
    samples, color = samples_of_rays(), mx.zeros((SLOTS, 3))
    given = penalties(samples, mx.array(0.0), PenaltyWeights(depth=1.0), KNOWN)
    return composite_penalized(density, color, samples, given.sample)[1] + given.ray


def losses_by_hand(density: np.ndarray) -> np.ndarray:
    """The loss of each ray in float64: twice as much for each of the half that has a track."""
    samples, losses = samples_of_rays(), np.zeros(len(STARTS) - 1)
    for ray in range(TRACKED):
        here = slice(STARTS[ray], STARTS[ray + 1])
        optical = density[here].astype(np.float64) * np.array(samples.width)[here]
        weight = np.exp(optical - np.cumsum(optical)) * (1 - np.exp(-optical))
        away, confidence, spread = KNOWN[ray].tolist()
        miss = (np.array(samples.distance)[here] - away) / spread
        losses[ray] = 2 * confidence * (1 - (weight * np.exp(-(miss**2) / 2)).sum())
    return losses


def test_the_depth_loss_is_its_formula_and_so_is_its_gradient():
    density = np.random.default_rng(9).uniform(0.5, 9.0, SLOTS).astype(np.float32)
    got, want = np.array(losses_of(mx.array(density))), losses_by_hand(density)
    assert want[1] == 1.0, "a ray without samples ends nowhere"
    assert 0.1 < want[0] < 1.6
    np.testing.assert_allclose(got, want, atol=1e-6)

    slope = np.array(mx.grad(lambda density: losses_of(density).sum())(mx.array(density)))
    steps = 1e-3 * np.eye(SLOTS)
    ends = [[losses_by_hand(density + by).sum() for by in (step, -step)] for step in steps]
    assert_matches(slope, -np.diff(ends)[:, 0] / 2e-3, rel=1e-3, name="d density")
    assert np.abs(slope[:9]).min() > 0
    assert not slope[9:].any()


@pytest.mark.parametrize(
    ("progress", "weight"), [(0.0, 0.2), (0.25, 0.15), (0.75, 0.05), (1.0, 0.0)]
)
def test_the_loss_falls_to_nothing_over_the_run(progress, weight):
    train = settled(override(CONFIG, train={"depth": 0.2}), Bounds(2.0)).train
    weights, samples = penalty_weights(train), samples_of_rays()
    got = penalties(samples, mx.array(progress), weights, KNOWN)
    want = penalties(samples, mx.array(0.0), PenaltyWeights(depth=1.0), KNOWN)
    np.testing.assert_allclose(np.array(got.sample), weight * np.array(want.sample), atol=1e-6)
    want = weight * np.array([1.8, 1.0, 1.4, 0, 0, 0])
    np.testing.assert_allclose(np.array(got.ray), want, atol=1e-6)


def after(config, scene, views, steps: int = 5):
    trainer = trainer_of(config, scene.bounds, views)
    report = list(trainer.train(initial(trainer), Goal(steps=steps)))[-1]
    return {name: np.array(values) for name, values in report.state.arrays().items()}


def test_without_the_loss_tracks_change_no_bit_and_the_loss_without_tracks_changes_none(scene):
    plain = after(CONFIG, scene, scene.views("train"))
    for config, views in ((CONFIG, with_tracks(scene)), (DEPTH, scene.views("train"))):
        other = after(config, scene, views)
        assert all(values.tobytes() == other[name].tobytes() for name, values in plain.items())
    changed = after(DEPTH, scene, with_tracks(scene))
    assert plain["parameters.table"].tobytes() != changed["parameters.table"].tobytes()


def test_a_step_counts_the_loss_by_its_weight(scene):
    def loss(weight: float) -> float:
        config = override(DEPTH, train={"depth": weight})
        trainer = trainer_of(config, scene.bounds, with_tracks(scene))
        return float(trainer.advance(initial(trainer), factor=1 / 3)[1].measured[0])

    none, one, two = map(loss, (1e-9, 1.0, 2.0))
    # At first, the density is low, so the loss is close to the mean confidence.
    assert 0.2 < one - none < 0.8
    assert two - none == pytest.approx(2 * (one - none), rel=1e-3)


def true_tracks(scene) -> Views:
    """The views with tracks of one point where training alone would create no density."""
    views = scene.views("train")
    point = np.array([[0.47, 0.56, 0.72]])
    pixel, view = [], []
    for index in range(len(views.names)):
        camera = views.cameras[index]
        x, y, z = (point[0] - camera.pose[:, 3]) @ camera.pose[:, :3]
        lens = camera.lens
        at = (lens.cx + lens.fl_x * x / -z, lens.cy - lens.fl_y * y / -z)
        if 0 <= at[0] < lens.width and 0 <= at[1] < lens.height:
            pixel.append(at)
            view.append(index)
    tracks = Tracks(np.array(view), np.array(pixel), np.zeros(len(view), int), point, np.zeros(1))
    return replace(views, tracks=tracks)


def test_training_with_it_puts_matter_at_the_points(scene):
    views = true_tracks(scene)
    assert len(views.tracks.view) > 4

    def miss(config) -> float:
        trainer = trainer_of(config, scene.bounds, views)
        state = list(trainer.train(initial(trainer), Goal(steps=150)))[-1].state
        losses = []
        for view in range(len(views.names)):
            rendered = trainer.model.renderer(state).render(views.cameras[view])
            column, row = np.floor(views.tracks.pixel[views.tracks.view == view]).astype(int).T
            distance = distances_of(views.tracks, np.array(views.cameras.poses[:, :, 3]))
            found = rendered.depth[row, column], rendered.opacity[row, column]
            away = np.abs(found[0] - distance[views.tracks.view == view])
            losses.append(np.where(found[1] > 0.5, away, 1.0))
        return float(np.median(np.concatenate(losses)))

    with_loss = override(CONFIG, train={"depth": 3.0})
    assert miss(with_loss) < 0.02
    assert miss(CONFIG) > 2 * miss(with_loss)
