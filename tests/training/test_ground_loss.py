"""The ground loss moves density to the ground plane."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Samples
from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.config import override
from nerfmac.geometry.ground_planes import GroundPlane, ground_plane
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.penalty import PenaltyWeights, penalties
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")

UP = (0.0, 0.0, 1.0)
GROUND = 2.0  # distance of the plane from the camera


def samples_at(distances: list[float]) -> Samples:
    """One ray with a sample at each of the distances, 0.01 wide."""
    count = len(distances)
    return Samples(
        mx.zeros((count, 3)),
        mx.array(distances),
        mx.full((count,), 0.01),
        mx.zeros(count, mx.int32),
        mx.array([0, count], mx.int32),
        mx.array([count], mx.int32),
    )


def loss_of(distances: list[float], density: mx.array, ground: float = GROUND) -> mx.array:
    samples = samples_at(distances)
    weights, ground = PenaltyWeights(ground=1.0), mx.array([ground])
    penalty = penalties(samples, mx.array(0.0), weights, ground=ground).sample
    return composite_penalized(density, mx.zeros((len(distances), 3)), samples, penalty)[1]


@pytest.mark.parametrize(
    ("distance", "want"), [(2.0, 0.0), (1.8, 0.1), (2.4, 0.2), (0.5, 0.3), (9.0, 0.3)]
)
def test_it_is_the_relative_distance_from_the_plane_up_to_its_reach(distance, want):
    got = loss_of([distance], mx.array([1e4]))
    assert float(got) == pytest.approx(want, abs=1e-6)


def test_its_gradient_moves_density_to_the_plane_and_leaves_distant_density_alone():
    slope = mx.grad(lambda density: loss_of([0.5, 0.6, 1.7, 2.0, 2.3], density).sum())(
        mx.full((5,), 3.0)
    )
    assert slope[3] < 0.0 < slope[2]
    assert slope[4] > 0.0
    assert abs(float(slope[1] - slope[0])) < 0.1 * float(slope[2])
    missed = mx.grad(lambda density: loss_of([1.0, 2.0], density, FAR_DISTANCE).sum())(mx.ones(2))
    assert (missed == 0.0).all()


def floor() -> GroundPlane:
    across = np.random.default_rng(2).uniform(0.0, 1.0, (300, 2))
    points = np.column_stack([across, np.full(300, 0.3)])
    plane = ground_plane(points, np.full(300, 0.01), UP)
    assert plane is not None
    return plane


def test_a_step_counts_it_by_its_weight_if_the_views_have_a_plane(scene):
    losses = {}
    for has_plane in (True, False):
        views = replace(scene.views("train"), find_ground=floor if has_plane else None)
        for weight in (0.0, 1.0, 2.0):
            config = override(CONFIG, train={"ground": weight})
            trainer = trainer_of(config, scene.bounds, views)
            _, result = trainer.advance(initial(trainer), factor=1 / 3)
            losses[has_plane, weight] = float(result.measured[0])
    assert losses[True, 1.0] - losses[True, 0.0] > 1e-3
    assert losses[True, 2.0] - losses[True, 1.0] == pytest.approx(
        losses[True, 1.0] - losses[True, 0.0], rel=1e-3
    )
    assert losses[False, 2.0] == losses[False, 0.0] == losses[True, 0.0]


def test_the_training_views_have_the_plane_of_the_points_that_training_uses(scene):
    points = np.column_stack(
        [np.random.default_rng(3).uniform(0.2, 0.8, (200, 2)), np.full(200, 0.4)]
    )
    with_points = replace(scene, points=points)
    plane = with_points.views("train").ground
    assert plane is not None
    assert abs(plane.normal[2]) == pytest.approx(1.0, abs=1e-6)
    assert plane.offset / plane.normal[2] == pytest.approx(0.4, abs=1e-6)
    assert with_points.views("test").ground is None
