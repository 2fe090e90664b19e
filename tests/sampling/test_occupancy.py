"""The occupancy grid's policy: what becomes occupied, what decays, and which cells are visited."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import SENSOR_REACH
from nerfmac.config import PRESETS, Config, MarchConfig, override
from nerfmac.config.sampling import NEAR
from nerfmac.geometry import Rays
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import is_occupied
from nerfmac.sampling.occupancy import MarchingSampler, Occupancy, march_geometry
from nerfmac.training.resolve import settled
from tests.bricks import in_bricks
from tests.sampling.grids import (
    CELLS,
    CONFIG,
    CUBE,
    SCENE,
    bits_of,
    box,
    centers,
    dense,
    grid_of,
    updated,
)

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_matter_along_one_axis_is_found_on_that_axis(axis):
    grid, occupancy = grid_of()
    occupancy = updated(grid, occupancy, lambda p: mx.where(p[:, axis] > 0.75, 40.0, 0.0), times=2)
    points = mx.array(np.where(np.eye(3), 0.9, 0.3).astype(np.float32))
    found = is_occupied(points, occupancy.bits, CUBE).tolist()
    assert found == [i == axis for i in range(3)]


@pytest.mark.parametrize("warmup", [True, False])
def test_an_asymmetric_blob_becomes_occupied_there_and_only_there(warmup):
    low, high = np.array([0.25, 0.5, 0.125]), np.array([0.4375, 0.9375, 0.25])
    grid, occupancy = grid_of()
    # After warm-up an update visits half as many cells, half of those among occupied ones.
    occupancy = updated(grid, occupancy, box(low, high), times=2 if warmup else 24, warmup=warmup)
    inside = ((centers(CUBE) > low) & (centers(CUBE) < high)).all(axis=1)
    assert inside.sum() == 3 * 7 * 2
    assert (bits_of(occupancy) == inside).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_matter_in_an_outer_cascade_is_found_there(axis):
    low, high = np.array([0.3, 0.35, 0.2]), np.array([0.8, 0.6, 0.7])
    low[axis], high[axis] = 1.75, 2.25  # scene coordinates; the cube ends at 2.5
    grid, occupancy = grid_of(SCENE)
    occupancy = updated(grid, occupancy, box(low, high), times=6)
    middle = (low + high) / 2
    mirrored = middle.copy()
    mirrored[axis] = 1.0 - middle[axis]
    swapped = np.roll(middle, 1)
    points = mx.array(np.stack([middle, mirrored, swapped]).astype(np.float32))
    assert is_occupied(points, occupancy.bits, SCENE).tolist() == [True, False, False]
    set_centers = centers(SCENE)[bits_of(occupancy)]
    side = 4 / CELLS
    assert (set_centers > low - side).all()
    assert (set_centers < high + side).all()


def test_values_are_the_optical_thickness_of_a_shortest_step():
    grid, occupancy = grid_of()
    low, high = (0.0, 0.0, 0.0), (0.5, 0.25, 1.0)
    occupancy = updated(grid, occupancy, box(low, high, density=7.0), times=1)
    inside = ((centers(CUBE) > low) & (centers(CUBE) < high)).all(axis=1)
    assert np.array(occupancy.values) == pytest.approx(7.0 * CUBE.step * inside, rel=1e-6)


def test_matter_that_goes_away_is_forgotten_while_other_matter_stays():
    stays, goes = box((0.0, 0.0, 0.0), (1.0, 1.0, 0.5)), box((0.0, 0.5, 0.75), (0.25, 1.0, 1.0))
    grid, occupancy = grid_of(decay=0.5)
    occupancy = updated(grid, occupancy, lambda p: stays(p) + goes(p), times=1)
    points = mx.array([[0.3, 0.7, 0.3], [0.1, 0.7, 0.9]])
    assert is_occupied(points, occupancy.bits, CUBE).tolist() == [True, True]
    # 40 per unit is 0.27 a step, five halvings above the threshold of 0.01.
    occupancy = updated(grid, occupancy, stays, times=4)
    assert is_occupied(points, occupancy.bits, CUBE).tolist() == [True, True]
    occupancy = updated(grid, occupancy, stays, times=1)
    assert is_occupied(points, occupancy.bits, CUBE).tolist() == [True, False]


def test_while_all_is_thin_the_threshold_is_the_mean():
    thin = 0.1 * CONFIG.threshold / CUBE.step
    grid, occupancy = grid_of()
    occupancy = updated(grid, occupancy, lambda p: thin * (1.0 + p[:, 1]), times=1)
    y = centers(CUBE)[:, 1]
    clear = np.abs(y - 0.5) > 1 / CELLS  # the mean is the middle's, to a cell
    assert (bits_of(occupancy)[clear] == (y > 0.5)[clear]).all()


def test_a_thick_field_is_compared_with_the_threshold():
    grid, occupancy = grid_of(threshold=0.3)
    slope = 2 * 0.3 / CUBE.step  # optical thickness 0.3 a step at x = 1/2, and 10 more at z > 0.5
    dense = 10.0 / CUBE.step
    occupancy = updated(
        grid, occupancy, lambda p: slope * p[:, 0] + dense * (p[:, 2] > 0.5), times=1
    )
    x, z = centers(CUBE)[:, 0], centers(CUBE)[:, 2]
    clear = np.abs(x - 0.5) > 1 / CELLS
    assert (bits_of(occupancy)[clear] == ((x > 0.5) | (z > 0.5))[clear]).all()


def visits(grid, occupancy, *, warmup, key) -> np.ndarray:
    """The cells in which an update evaluates the field, in order."""
    asked = []

    def density(position: mx.array) -> mx.array:
        asked.append(np.array(position, np.float64))
        return mx.zeros(len(position))

    visible = mx.ones(grid.geometry.cells, mx.bool_)
    mx.eval(grid.update(occupancy, density, visible, mx.random.key(key), warmup=warmup))
    (position,) = asked
    assert (np.abs(position - 0.5) <= 0.5).all()
    x, y, z = np.minimum((position * CELLS).astype(int), CELLS - 1).T
    order = in_bricks(np.arange(CELLS**3).reshape(1, CELLS, CELLS, CELLS))
    return np.argsort(order)[(z * CELLS + y) * CELLS + x]


def test_after_warm_up_the_later_half_of_the_draws_is_among_occupied_cells():
    grid, occupancy = grid_of(fraction=0.5)
    low, high = (0.125, 0.5, 0.25), (0.5, 0.75, 1.0)
    occupancy = updated(grid, occupancy, box(low, high), times=2)
    occupied = np.flatnonzero(bits_of(occupancy))
    assert len(occupied) == 6 * 4 * 12
    counts = np.zeros(CELLS**3)
    for key in range(20):
        asked = visits(grid, occupancy, warmup=False, key=key)
        assert len(asked) == CELLS**3 // 2
        anywhere, among = np.split(asked, 2)
        assert np.isin(among, occupied).mean() > 0.998
        assert (anywhere // 4 == np.arange(CELLS**3 // 4)).mean() > 0.998
        np.add.at(counts, among, 1)
    # 20 x 1024 draws over 288 cells are 71 each. In each update, a cell has at least 3 of the 3.6.
    assert counts[occupied].min() >= 20 * 3
    assert counts[occupied].max() <= 20 * 5
    assert abs(counts[occupied].mean() - 20 * 1024 / 288) < 1


def test_cells_without_light_stay_empty_and_those_of_one_update_do_not():
    visible = np.random.default_rng(0).random(CELLS**3) < 0.3
    grid, _ = grid_of(visibility_patience=3)
    occupancy = grid.init(mx.array(visible))
    assert (bits_of(occupancy) == visible).all()
    occupancy = updated(grid, occupancy, dense, times=1, visible=visible)
    assert (bits_of(occupancy) == visible).all()
    other = ~visible & (np.arange(CELLS**3) % 5 == 0)
    occupancy = updated(grid, occupancy, dense, times=1, visible=other)
    assert (bits_of(occupancy) == visible | other).all()


def test_after_the_warm_up_patience_with_darkness_ends_and_light_brings_a_cell_back():
    visible = np.arange(CELLS**3) % 3 == 0
    grid, occupancy = grid_of(visibility_patience=24, fraction=1.0)
    occupancy = updated(grid, occupancy, dense, times=1)
    occupancy = updated(grid, occupancy, dense, times=9, visible=visible)
    assert bits_of(occupancy).all(), "during the warm-up no patience is lost"
    occupancy = updated(grid, occupancy, dense, times=3, visible=visible, warmup=False)
    assert (bits_of(occupancy) == visible).all(), "an eighth of the longest patience"
    # The value of a cell that is not visible is kept: it is occupied as soon as it becomes visible.
    occupancy = updated(grid, occupancy, dense, times=1, visible=~visible, warmup=False)
    assert bits_of(occupancy).all()


@pytest.mark.parametrize(("visible_for", "hidden_for"), [(10, 9), (17, 16), (60, 24)])
def test_patience_is_half_of_the_updates_since_the_warm_up_until_it_is_the_longest(
    visible_for, hidden_for
):
    cells, visible = np.ones(CELLS**3, bool), np.arange(CELLS**3) % 3 == 0
    grid, occupancy = grid_of(visibility_patience=24, fraction=1.0)
    occupancy = updated(grid, occupancy, dense, times=1)
    occupancy = updated(grid, occupancy, dense, times=visible_for, visible=cells, warmup=False)
    occupancy = updated(grid, occupancy, dense, times=hidden_for - 1, visible=visible, warmup=False)
    assert bits_of(occupancy).all()
    occupancy = updated(grid, occupancy, dense, times=1, visible=visible, warmup=False)
    assert (bits_of(occupancy) == visible).all()


def test_an_update_is_the_same_for_the_same_key_and_another_for_another():
    grid, occupancy = grid_of(warmup_fraction=0.25)

    def density(position: mx.array) -> mx.array:
        return 30.0 * position[:, 0]

    one, same, other = (
        np.array(updated(grid, occupancy, density, times=1, first=key).values) for key in (3, 3, 4)
    )
    assert (one == same).all()
    assert (one != other).any()


def test_steps_grow_only_in_scenes_larger_than_the_unit_cube():
    config = override(Config(), march={"cone": 0.01}, occupancy={"resolution": 32})
    small, large = (
        march_geometry(settled(config, bounds).march, config.occupancy, bounds)
        for bounds in (Bounds(1.0), Bounds(2.5))
    )
    assert (small.cone, large.cone) == (0.0, 0.01)
    assert (large.bounds.extent, large.resolution, large.near) == (2.5, 32, NEAR)
    assert small.step == large.step == MarchConfig().step


def test_cells_in_front_of_a_measured_surface_are_empty_during_the_warm_up():
    config = settled(override(PRESETS["tiny"], march={"near": 0.0}), Bounds(1.0))
    sampler = MarchingSampler(config.march, CONFIG, Bounds(1.0), lambda *_: None)
    across = np.mgrid[0.01:0.99:40j, 0.01:0.99:40j].reshape(2, -1).T
    origin = mx.array(np.insert(across, 0, -0.5, axis=1).astype(np.float32))
    rays = Rays(origin, mx.broadcast_to(mx.array([1.0, 0.0, 0.0]), origin.shape))
    known = mx.broadcast_to(mx.array([1.25, 0.25]), (len(across), 2))  # the surface is at x = 0.75
    partly = mx.where(origin[:, 1:2] < 0.5, known, 0.0)
    state = sampler.with_depth(sampler.init([rays]), [(rays, known), (rays, partly)])
    assert {name: values.shape for name, values in state.items()} == sampler.shapes
    x, y, _ = centers(sampler.geometry).T
    around = np.abs(x - 0.75) < SENSOR_REACH * 1.25
    clear = np.abs(np.abs(x - 0.75) - SENSOR_REACH * 1.25) > 1 / CELLS
    occupied = bits_of(Occupancy(**state))
    behind = (y > 0.5) & (x > 0.75)  # Only rays with an unknown depth reach these cells.
    assert (occupied == (around | behind))[clear].all()
