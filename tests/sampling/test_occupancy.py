"""The occupancy grid's policy: what becomes occupied, what decays, and which cells are visited."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.config import Config, MarchConfig, OccupancyConfig, override
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.march import MarchGeometry, is_occupied
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid, march_geometry, stratified
from tests.bricks import in_bricks

CELLS = 16  # along an axis
CONFIG = OccupancyConfig(resolution=CELLS)
CUBE = MarchGeometry(1.0, CELLS, 0.05, 3**0.5 / 256, 0.0)
SCENE = MarchGeometry(4.0, CELLS, 0.05, 3**0.5 / 256, 1 / 64)


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def cameras_around(distance: float) -> Cameras:
    """Six views that have all of the scene in them."""
    lens = Lens.from_fov(1.6, 40, 30)
    eyes = 0.5 + distance * np.concatenate([np.eye(3), -np.eye(3)])
    return Cameras.stack([Camera.look_at(e, (0.5, 0.5, 0.5), (0.3, 1.0, 0.2), lens) for e in eyes])


def grid_of(geometry: MarchGeometry = CUBE, **changes) -> tuple[OccupancyGrid, Occupancy]:
    config = OccupancyConfig(**{"resolution": CELLS, **changes})
    grid = OccupancyGrid(config, geometry)
    return grid, grid.init(cameras_around(3.0 * geometry.extent))


def box(low, high, density: float = 40.0) -> Callable[[mx.array], mx.array]:
    """A field that is dense inside an axis-aligned box and empty elsewhere."""
    low, high = mx.array(low), mx.array(high)
    return lambda p: density * mx.all((p > low) & (p < high), axis=1).astype(mx.float32)


def centres(geometry: MarchGeometry) -> np.ndarray:
    """(cells, 3) of all cascades, in the order of their numbers."""
    parts = []
    for cascade in range(geometry.cascades):
        side = 2.0**cascade
        line = 0.5 - side / 2 + side * (np.arange(CELLS) + 0.5) / CELLS
        z, y, x = np.meshgrid(line, line, line, indexing="ij")
        parts.append(np.stack([x, y, z], axis=-1))
    return in_bricks(np.stack(parts))


def bits_of(occupancy: Occupancy) -> np.ndarray:
    words = np.ascontiguousarray(np.array(occupancy.bits))
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


def updated(grid, occupancy, density, times, *, warmup=True, first=0) -> Occupancy:
    for i in range(first, first + times):
        occupancy = grid.update(occupancy, density, mx.random.key(i), warmup=warmup)
    return occupancy


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
    inside = ((centres(CUBE) > low) & (centres(CUBE) < high)).all(axis=1)
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
    set_centres = centres(SCENE)[bits_of(occupancy)]
    side = 4 / CELLS
    assert (set_centres > low - side).all()
    assert (set_centres < high + side).all()


def test_values_are_the_optical_thickness_of_a_shortest_step():
    grid, occupancy = grid_of()
    low, high = (0.0, 0.0, 0.0), (0.5, 0.25, 1.0)
    occupancy = updated(grid, occupancy, box(low, high, density=7.0), times=1)
    inside = ((centres(CUBE) > low) & (centres(CUBE) < high)).all(axis=1)
    assert np.array(occupancy.values) == pytest.approx(7.0 * CUBE.step * inside, rel=1e-6)


def test_values_decay_by_the_same_factor_at_every_update():
    grid, occupancy = grid_of(decay=0.8)
    occupancy = updated(grid, occupancy, box((0.5, 0.0, 0.0), (1.0, 1.0, 1.0)), times=1)
    start = np.array(occupancy.values)
    after = updated(grid, occupancy, box((2.0, 2.0, 2.0), (3.0, 3.0, 3.0)), times=5)
    assert start.max() > 0
    assert np.array(after.values) == pytest.approx(start * 0.8**5, rel=1e-5)


def test_a_larger_estimate_replaces_a_decayed_value_and_a_smaller_one_does_not():
    grid, occupancy = grid_of(decay=0.5)
    for density, want in ((8.0, 8.0), (3.0, 4.0), (3.0, 3.0), (5.0, 5.0)):
        occupancy = updated(grid, occupancy, lambda p, d=density: mx.full((len(p),), d), times=1)
        assert np.array(occupancy.values) == pytest.approx(want * CUBE.step, rel=1e-6)


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
    y = centres(CUBE)[:, 1]
    clear = np.abs(y - 0.5) > 1 / CELLS  # the mean is the middle's, to a cell
    assert (bits_of(occupancy)[clear] == (y > 0.5)[clear]).all()


def test_a_thick_field_is_compared_with_the_threshold():
    grid, occupancy = grid_of(threshold=0.3)
    slope = 2 * 0.3 / CUBE.step  # optical thickness 0.3 a step at x = 1/2, and 10 more at z > 0.5
    dense = 10.0 / CUBE.step
    occupancy = updated(
        grid, occupancy, lambda p: slope * p[:, 0] + dense * (p[:, 2] > 0.5), times=1
    )
    x, z = centres(CUBE)[:, 0], centres(CUBE)[:, 2]
    clear = np.abs(x - 0.5) > 1 / CELLS
    assert (bits_of(occupancy)[clear] == ((x > 0.5) | (z > 0.5))[clear]).all()


def test_an_empty_field_leaves_nothing_occupied():
    grid, occupancy = grid_of()
    assert bits_of(occupancy).all(), "all is seen, so all is occupied at first"
    for warmup in (True, False, False):  # the last one draws among no occupied cells at all
        occupancy = updated(grid, occupancy, lambda p: mx.zeros(len(p)), times=1, warmup=warmup)
        assert not bits_of(occupancy).any()
        assert np.isfinite(np.array(occupancy.values)).all()


@pytest.mark.parametrize("towards", [(1, 0, 0), (0, -1, 0), (0, 0, 1), (-0.5, 0.7, 0.3)])
@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_cells_no_camera_sees_stay_empty_and_those_seen_do_not(towards, geometry):
    lens = Lens(60, 30, 40.0, 50.0, 20.0, 22.0)  # wider than high, and off the middle
    eye = np.array([0.45, 0.55, 0.4])
    camera = Camera.look_at(eye, eye + towards, (0.1, 0.2, 0.97), lens)
    grid = OccupancyGrid(CONFIG, geometry)
    occupancy = grid.init(Cameras.stack([camera]))
    occupancy = updated(grid, occupancy, lambda p: mx.full((len(p),), 50.0), times=2)

    offset = centres(geometry) - eye
    x, y, back = (offset @ camera.pose[:, :3].astype(np.float64)).T
    side = np.repeat(2.0 ** np.arange(geometry.cascades) / CELLS, CELLS**3)
    depth = np.maximum(-back, 1e-9)
    column, row = 40.0 * x / depth + 20.0, -50.0 * y / depth + 22.0
    seen = (back < 0) & (column > 0) & (column < 60) & (row > 0) & (row < 30)
    margin = 50.0 * 2 * side / depth
    beside = (column < -6 - margin) | (column > 66 + margin)
    beside |= (row < -3 - margin) | (row > 33 + margin)
    unseen = (back > 2 * side) | ((back < 0) & beside)
    assert min(seen.sum(), unseen.sum()) > 100
    bits, values = bits_of(occupancy), np.array(occupancy.values)
    assert bits[seen].all()
    assert not bits[unseen].any()
    assert (values[unseen] == -1.0).all()
    assert (values[seen] > 0.0).all()


def test_several_cameras_see_what_any_of_them_sees():
    lens = Lens.from_fov(0.6, 30, 30)
    views = [
        Camera.look_at((0.5, 0.5, 0.5), target, (0.1, 0.9, 0.2), lens)
        for target in ((1.0, 0.5, 0.5), (0.5, 0.5, 0.0))
    ]
    grid = OccupancyGrid(CONFIG, CUBE)
    alone = [bits_of(grid.init(Cameras.stack([view]))) for view in views]
    together = bits_of(grid.init(Cameras.stack(views)))
    assert (alone[0] != alone[1]).any()
    assert (together == alone[0] | alone[1]).all()


def lit_fraction(camera: Camera) -> np.ndarray:
    """(pixels,) what fraction of a pixel's way through the unit cube leads through seen cells."""
    geometry = MarchGeometry(1.0, 64, 0.05, 3**0.5 / 256, 0.0)
    grid = OccupancyGrid(OccupancyConfig(resolution=64), geometry)
    occupancy = grid.init(Cameras.stack([camera]))
    rays = camera_rays(camera)
    distance = mx.linspace(0.0, 3.0, 301)[:, None, None]
    points = rays.origin + distance * rays.direction
    is_inside = np.array(((points > 0.0) & (points < 1.0)).all(axis=2))
    seen = is_occupied(points.reshape(-1, 3), occupancy.bits, geometry)
    lit = np.array(seen).reshape(is_inside.shape) & is_inside
    return lit.sum(axis=0)[is_inside.any(axis=0)] / is_inside.sum(axis=0)[is_inside.any(axis=0)]


@pytest.mark.parametrize("k1", [0.0, -0.25, -0.1, 0.2])
def test_every_pixel_looks_through_seen_cells_whatever_the_lens(k1):
    # With k1 = -0.25 the lens folds inside the picture: no direction leads to its corners.
    lens = Lens(80, 60, 50.0, 50.0, 40.0, 30.0, k1=k1)
    for eye in ((0.5, 0.45, -0.3), (0.4, 0.5, 0.55)):
        lit = lit_fraction(Camera.look_at(eye, (0.5, 0.5, 1.5), (0.0, 1.0, 0.0), lens))
        assert len(lit) > 0.5 * 4800
        assert lit.min() == 1.0


def test_a_strong_lens_sees_nothing_behind_it_nor_far_to_its_side():
    lens = Lens(80, 60, 50.0, 50.0, 40.0, 30.0, k1=-0.1)
    camera = Camera.look_at((0.5, 0.5, 0.3), (0.5, 0.5, 1.0), (0.0, 1.0, 0.0), lens)
    occupancy = OccupancyGrid(CONFIG, CUBE).init(Cameras.stack([camera]))
    x, _, z = (centres(CUBE) - (0.5, 0.5, 0.3)).T
    behind, beside = z < -2 / CELLS, (np.abs(x) > 1.3 * z + 2 / CELLS) & (z > 0)
    assert min(behind.sum(), beside.sum()) > 100
    assert (np.array(occupancy.values)[behind | beside] == -1.0).all()


@pytest.mark.parametrize("block", [1, 3])
def test_what_is_seen_does_not_depend_on_how_many_cells_are_looked_at_at_a_time(monkeypatch, block):
    lens = Lens(60, 30, 40.0, 50.0, 20.0, 22.0)
    cameras = Cameras.stack([Camera.look_at((0.2, 0.4, 0.4), (1, 1, 1), (0, 0, 1), lens)])
    at_once = bits_of(OccupancyGrid(CONFIG, CUBE).init(cameras))
    monkeypatch.setattr("nerfmac.sampling.occupancy.BLOCK", CELLS**3 // block - 7)
    assert 0 < at_once.sum() < CELLS**3
    assert (bits_of(OccupancyGrid(CONFIG, CUBE).init(cameras)) == at_once).all()


def visits(grid, occupancy, *, warmup, key) -> np.ndarray:
    """The cells that an update asks the field about, in order."""
    asked = []

    def density(position: mx.array) -> mx.array:
        asked.append(np.array(position, np.float64))
        return mx.zeros(len(position))

    mx.eval(grid.update(occupancy, density, mx.random.key(key), warmup=warmup))
    (position,) = asked
    assert (np.abs(position - 0.5) <= 0.5).all()
    x, y, z = np.minimum((position * CELLS).astype(int), CELLS - 1).T
    order = in_bricks(np.arange(CELLS**3).reshape(1, CELLS, CELLS, CELLS))
    return np.argsort(order)[(z * CELLS + y) * CELLS + x]


def test_a_whole_warm_up_update_visits_every_cell_once_somewhere_in_it():
    grid, occupancy = grid_of()
    asked = visits(grid, occupancy, warmup=True, key=0)
    # A point within roundoff of a face may count as the neighbour's.
    assert (asked == np.arange(CELLS**3)).mean() > 0.999


def test_a_part_of_a_warm_up_update_visits_one_cell_in_each_stratum():
    grid, occupancy = grid_of(warmup_fraction=0.25)
    counts = np.zeros(CELLS**3)
    for key in range(40):
        asked = visits(grid, occupancy, warmup=True, key=key)
        assert len(asked) == CELLS**3 // 4
        assert (asked // 4 == np.arange(CELLS**3 // 4)).mean() > 0.998
        np.add.at(counts, asked, 1)
    # Each of a stratum's four cells is drawn 40 / 4 times, give or take the binomial's 2.7.
    within = counts.reshape(-1, 4)
    assert within.mean() == 10.0
    assert 0.9 < counts.std() / np.sqrt(40 * 0.25 * 0.75) < 1.1
    # 1024 strata: the means of their four places are equal to 5 standard errors.
    assert np.abs(within.mean(axis=0) - 10.0).max() < 5 * 2.74 / np.sqrt(1024)


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
    # 20 x 1024 draws over 288 cells are 71 each, give or take 8.4.
    drawn = counts[occupied]
    assert np.abs(drawn - drawn.mean()).max() < 5.5 * 8.4
    assert 0.85 < drawn.std() / np.sqrt(drawn.mean()) < 1.15


@pytest.mark.parametrize(
    ("total", "count"), [(1, 1), (7, 5), (5, 7), (2**12, 2**10), (3 * 2**24, 1000), (2**31, 999)]
)
def test_one_cell_is_drawn_in_each_of_equal_strata(total, count):
    drawn = np.array(stratified(total, count, mx.random.key(total % 97))).astype(np.int64)
    stratum = np.arange(count)
    assert drawn.shape == (count,)
    assert (drawn >= stratum * total // count).all()
    assert (drawn <= ((stratum + 1) * total - 1) // count).all()


@pytest.mark.parametrize("total", [3 * 2**24, 2**31])
def test_cells_of_every_residue_are_drawn_alike_from_however_large_a_grid(total):
    drawn = np.array(stratified(total, 2**16, mx.random.key(5)))[2**15 :]
    # The later half, where float32 is coarsest: 2^15 draws over 8 residues, 4096 +- 60.
    assert np.abs(np.bincount(drawn % 8, minlength=8) - 4096).max() < 5 * 60


def test_cells_are_equally_likely_where_strata_are_no_whole_number_of_cells():
    counts = np.zeros(7)
    for key in range(1000):
        np.add.at(counts, np.array(stratified(7, 5, mx.random.key(key))), 1)
    # 714 each; a stratum's draw has a standard deviation of at most 0.5, and a cell meets two.
    assert np.abs(counts - 5000 / 7).max() < 5 * np.sqrt(2 * 0.25 * 1000)


def test_an_update_is_the_same_for_the_same_key_and_another_for_another():
    grid, occupancy = grid_of(warmup_fraction=0.25)

    def density(position: mx.array) -> mx.array:
        return 30.0 * position[:, 0]

    one, same, other = (
        np.array(grid.update(occupancy, density, mx.random.key(key), warmup=True).values)
        for key in (3, 3, 4)
    )
    assert (one == same).all()
    assert (one != other).any()


def test_steps_grow_only_in_scenes_larger_than_the_unit_cube():
    config = override(Config(), march={"cone": 0.01}, occupancy={"resolution": 32})
    small, large = march_geometry(config, 1.0), march_geometry(config, 2.5)
    assert (small.cone, large.cone) == (0.0, 0.01)
    assert (large.extent, large.resolution, large.near) == (2.5, 32, MarchConfig().near)
    assert small.step == large.step == MarchConfig().step
