"""Marching and its geometry, against a walk along each ray step by step in float64."""

from math import ceil, sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry, Occupied, count_samples
from tests.ops.marching import GEOMETRIES, grid, packed, run, some_rays

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24


@pytest.fixture(params=GEOMETRIES)
def geometry(request):
    return GEOMETRIES[request.param]


def cell_at(position: np.ndarray, geometry: MarchGeometry) -> tuple[int, ...] | None:
    """Cascade, z, y and x of the smallest cascade's cell that holds the point."""
    for cascade in range(geometry.bounds.cascades):
        side = 2.0**cascade
        if np.abs(position - 0.5).max() < side / 2:
            x, y, z = ((position - 0.5 + side / 2) / side * geometry.resolution).astype(int)
            return cascade, z, y, x
    return None


def chord(origin, direction, geometry) -> tuple[float, float]:
    """Where the ray enters the cube, or `near` if later, and where it leaves it."""
    sides = np.array([-0.5, 0.5])[:, None] * geometry.bounds.extent + 0.5
    with np.errstate(divide="ignore"):
        cuts = (sides - origin) / direction
    return max(cuts.min(axis=0).max(), geometry.near), cuts.max(axis=0).min()


def walk(origin, direction, jitter, is_set, geometry) -> list[float]:
    """Distances of the samples, one step after the other."""

    def advance(distance: float, steps: float) -> float:
        if geometry.cone == 0:
            return distance + steps * geometry.step
        growth = geometry.step / geometry.cone  # from here on steps grow
        even = min(max((growth - distance) / geometry.step, 0.0), steps)
        return (distance + even * geometry.step) * (1 + geometry.cone) ** (steps - even)

    begin, leave = chord(origin, direction, geometry)
    found = []
    while begin < leave:
        distance = advance(begin, jitter)
        cell = cell_at(origin + distance * direction, geometry)
        if distance < leave and cell is not None and is_set[cell]:
            found.append(distance)
        begin = advance(begin, 1.0)
    return found


@pytest.mark.parametrize("filled", [0.15, 1.0])
def test_samples_are_those_of_a_walk_step_by_step(geometry, filled):
    rays, is_set = some_rays(geometry), grid(geometry, filled)
    got = run(rays, is_set, geometry)
    exact = zip(*(each.astype(np.float64) for each in rays), strict=True)
    want = [walk(*ray, is_set, geometry) for ray in exact]
    counts = np.array([len(each) for each in want])
    assert (counts > 0).mean() > 0.5
    # Roundoff may put a sample on the other side of a cell's face, of a hundred or so a ray.
    is_same = got["wanted"] == counts
    assert is_same.mean() >= 0.96
    assert np.abs(got["wanted"] - counts).max() <= 2
    starts = got["ray_start"]
    for ray in np.flatnonzero(is_same & (counts > 0)):
        distance = got["distance"][starts[ray] : starts[ray + 1]]
        # Logarithm and exponential of a value of several hundred steps, each with a few roundoffs.
        tolerance = 512 * ROUNDOFF * geometry.bounds.extent
        close = np.abs(distance - want[ray]) < tolerance
        assert close.mean() > 0.98, f"ray {ray}"


def test_every_sample_lies_in_an_occupied_cell_of_the_cube(geometry):
    is_set = grid(geometry, 0.3)
    got = run(some_rays(geometry), is_set, geometry)
    used = got["ray_start"][-1]
    assert used > 1000
    position = got["position"][:used].astype(np.float64)
    rounding = 64 * ROUNDOFF * geometry.bounds.extent
    assert np.abs(position - 0.5).max() <= geometry.bounds.extent / 2 + rounding
    cells = [cell_at(each, geometry) for each in position]
    in_occupied = [cell is not None and is_set[cell] for cell in cells]
    assert np.mean(in_occupied) > 0.998  # the others' place in the cell is within roundoff of 0


def test_positions_are_the_rays_at_the_distances(geometry):
    origins, directions, jitter = some_rays(geometry)
    got = run((origins, directions, jitter), grid(geometry, 0.3), geometry)
    used = got["ray_start"][-1]
    ray, distance = got["ray"][:used], got["distance"][:used]
    want = origins[ray] + directions[ray].astype(np.float64) * distance[:, None]
    assert_matches(got["position"][:used], want, rel=4 * ROUNDOFF, name="position")


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_in_a_full_grid_widths_sum_to_the_chord_within_a_step(geometry, jitter):
    origins, directions, _ = some_rays(geometry)
    rays = (origins, directions, np.full(len(origins), jitter))
    got = run(rays, grid(geometry, 1.1), geometry)
    hits = 0
    for ray, (origin, direction) in enumerate(zip(origins, directions, strict=True)):
        enter, leave = chord(origin.astype(np.float64), direction, geometry)
        own = slice(*got["ray_start"][ray : ray + 2])
        step = max(geometry.step, geometry.cone * leave) * 1.001
        assert abs(got["width"][own].sum() - max(leave - enter, 0.0)) <= step, f"ray {ray}"
        hits += leave > enter
    assert hits > 100


@pytest.mark.parametrize("name", ["scene", "odd"])
def test_steps_are_even_at_first_and_grow_with_distance_beyond_step_over_cone(name):
    geometry = GEOMETRIES[name]
    growth = geometry.step / geometry.cone
    far = 0.5 - 0.49 * geometry.bounds.extent
    origin = np.array([[far, far + 0.1, far + 0.2]])
    direction = np.array([[3.0, 2.0, 4.0]]) / sqrt(29)
    got = run((origin, direction, [0.0]), grid(geometry, 1.1), geometry)
    used = got["ray_start"][-1]
    begin, width = got["distance"][:used], got["width"][:used]  # no jitter: interval and sample
    even, growing = begin + geometry.step < growth, begin > growth
    assert even.sum() > 10
    assert growing.sum() > 10
    # A width is the difference of two distances, each to the roundoff of some hundred steps.
    tolerance = 512 * ROUNDOFF * geometry.bounds.extent
    assert np.abs(width[even] - geometry.step).max() < tolerance
    assert np.abs(width[growing] - geometry.cone * begin[growing]).max() < tolerance
    assert np.abs(begin[1:] - begin[:-1] - width[:-1]).max() < tolerance


def test_no_sample_is_nearer_than_near(geometry):
    random = np.random.default_rng(9)
    directions = random.normal(size=(50, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    origins = 0.5 + 0.2 * geometry.bounds.extent * random.uniform(-1, 1, (50, 3))
    got = run((origins, directions, np.zeros(50)), grid(geometry, 1.1), geometry)
    first = got["distance"][got["ray_start"][:-1][got["wanted"] > 0]]
    assert len(first) > 20
    assert first == pytest.approx(geometry.near, rel=1e-4)


@pytest.mark.parametrize("cascade", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_matter_along_one_axis_is_found_on_that_axis(axis, cascade):
    geometry = GEOMETRIES["scene"]
    side, cells = 2.0**cascade, geometry.resolution
    place = np.array([9, 9, 9])  # just off the middle
    place[axis] = 14  # outside the cascade within
    is_set = grid(geometry, 0.0)
    is_set[cascade, place[2], place[1], place[0]] = True
    lowest = 0.5 - side / 2 + place * side / cells
    center = lowest + side / cells / 2
    for along in range(3):
        direction = np.eye(3)[along]
        through, beside = (each - side * direction for each in (center, np.roll(center, 1)))
        # `beside` passes the occupied cell on another axis, and misses it unless it is parallel.
        origins = np.stack([through, beside])
        got = run((origins, np.stack([direction] * 2), [0.3, 0.3]), is_set, geometry)
        own, beside_hits = got["wanted"]
        assert own > 0
        assert beside_hits == 0
        position = got["position"][:own]
        assert (position >= lowest - 1e-5).all()
        assert (position <= lowest + side / cells + 1e-5).all()
        assert abs(got["width"][:own].sum() - side / cells) < 2 * geometry.cone * 1.1 * side


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_ray_along_a_face_is_inside_just_before_the_face_and_outside_behind_it(geometry, axis):
    half, direction = geometry.bounds.extent / 2, np.eye(3)[axis]
    across = np.roll(direction, 1)
    origins = [0.5 - 2 * half * direction + (half + by) * across for by in (-1e-4, 1e-4)]
    origins += [0.5 - 2 * half * direction - (half + by) * across for by in (-1e-4, 1e-4)]
    got = run((origins, [direction] * 4, np.full(4, 0.5)), grid(geometry, 1.1), geometry)
    inside_high, outside_high, inside_low, outside_low = got["wanted"]
    assert min(inside_high, inside_low) > 5
    assert max(outside_high, outside_low) == 0


def test_a_ray_that_misses_the_cube_has_no_samples(geometry):
    half = geometry.bounds.extent / 2
    origins = 0.5 + half * np.array([[3.0, 0.1, 0.2], [3.0, 0.0, 0.0], [1.2, 1.2, -2.0]])
    directions = np.array([[0.0, 0.6, 0.8], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # past, away, along
    got = run((origins, directions, np.full(3, 0.5)), grid(geometry, 1.1), geometry)
    assert got["wanted"].tolist() == [0, 0, 0]
    assert got["ray_start"].tolist() == [0, 0, 0, 0]
    assert got["fits"].all()


def test_counting_alone_agrees_with_marching(geometry):
    rays, is_set = some_rays(geometry), grid(geometry, 0.2)
    arrays = [mx.array(each) for each in rays]
    counts = np.array(count_samples(*arrays, Occupied(geometry, packed(is_set))))
    assert counts.dtype == np.int32
    assert (counts == run(rays, is_set, geometry)["wanted"]).all()
    assert counts.max() <= ceil(sqrt(3) * geometry.bounds.extent / geometry.step) + 1


@pytest.mark.usefixtures("run_by")
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_no_ray_has_more_intervals_than_the_geometry_says(geometry):
    # The cube's diagonals, the longest way there is, from a corner on.
    from_corner = MarchGeometry(
        geometry.bounds, geometry.resolution, 0.0, geometry.step, geometry.cone
    )
    signs = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]])
    origins = 0.5 - 0.49999 * geometry.bounds.extent * signs
    rays = (origins, signs / sqrt(3), np.zeros(4))
    counts = run(rays, grid(from_corner, 1.1), from_corner)["wanted"]
    most = from_corner.most_intervals
    assert (counts <= most).all()
    assert (counts >= most - 4).all(), "the bound wastes room"


@pytest.mark.parametrize(
    ("extent", "cascades"), [(0.3, 1), (1.0, 1), (1.01, 2), (2.0, 2), (3.0, 3), (4.0, 3), (16.0, 5)]
)
def test_cascades_double_until_they_hold_the_scene(extent, cascades):
    geometry = MarchGeometry(Bounds(extent), 8, 0.1, 0.01, 0.0)
    assert geometry.bounds.cascades == cascades
    assert geometry.cells == cascades * 512
    assert 2 ** (cascades - 1) >= extent
