"""Traced rays, visibility, and median depth, by their laws."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, Rays, Samples
from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.ops.composite import composite
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, count_samples, march
from nerfmac.ops.networks import NetworksShape
from nerfmac.ops.trace import (
    TraceGeometry,
    _trace_reference,
    composite_until_opaque,
    median_distance,
    trace,
)
from nerfmac.ops.visibility import termination_distances, visible_cells
from tests.ops.marching import GEOMETRIES, grid, packed, some_rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")

GEOMETRY = TraceGeometry(
    MarchGeometry(Bounds(1.0), 16, 0.05, 3**0.5 / 128, 0.0),
    HashLevels(8, 10, 8, 1.3),
    NetworksShape(16, 32, 1, 1),
)


def arguments() -> dict[str, mx.array]:
    """A thin fog everywhere: rays leave it before their light has ended."""
    keys = mx.random.split(mx.random.key(5), 3)
    shape = GEOMETRY.networks
    return {
        "bits": mx.full((GEOMETRY.march.cells // 32,), 2**32 - 1, mx.uint32),
        "table": mx.random.normal((GEOMETRY.levels.entries, 2), key=keys[0]),
        "density_weights": 0.1 * mx.random.normal((shape.density.weights,), key=keys[1]),
        "color_weights": 0.3 * mx.random.normal((shape.color.weights,), key=keys[2]),
    }


def rays(count: int) -> dict[str, Rays]:
    origins = mx.array([[-0.6, 0.3, 0.2]])
    directions = mx.array([[0.9, 0.3, 0.1]])
    directions = directions / mx.linalg.norm(directions)
    shape = (count, 3)
    return {"rays": Rays(mx.broadcast_to(origins, shape), directions + mx.zeros(shape))}


@pytest.mark.parametrize("count", [2, 16, 17, 100, 700])
def test_rays_that_are_alike_see_alike_however_many(count):
    # They end all at once, so that no ray is active when the next ones begin.
    (one,), (first,), (far,) = map(np.array, trace(**rays(1), **arguments(), geometry=GEOMETRY)[:3])
    assert 0.05 < first < 0.9, "fog"
    seen = trace(**rays(count), **arguments(), geometry=GEOMETRY)
    color, opacity, depth = map(np.array, seen[:3])
    assert (color == one).all()
    assert (opacity == first).all()
    assert (depth == far).all()


def test_the_images_width_changes_nothing_but_the_order():
    spread = mx.random.normal((96, 3), key=mx.random.key(1)) * mx.array([0.02, 0.1, 0.2])
    given = rays(96) | arguments()
    origins, directions, *_ = given["rays"]
    directions = directions + spread
    directions /= mx.linalg.norm(directions, axis=1, keepdims=True)
    given["rays"] = Rays(origins, directions)
    in_order = trace(**given, geometry=GEOMETRY)[:3]
    for width in (8, 24, 96):
        seen = trace(**given, geometry=GEOMETRY, width=width)[:3]
        for got, want in zip(seen, in_order, strict=True):
            np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-6)


def random_rays(geometry: MarchGeometry, count: int = 400) -> Rays:
    return Rays(*map(mx.array, some_rays(geometry, count)[:2]))


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("filled", [0.02, 0.4])
def test_empty_space_is_crossed_without_missing_a_sample(name, filled):
    march = GEOMETRIES[name]
    given = arguments() | {"bits": packed(grid(march, filled))}
    scene = TraceGeometry(march, GEOMETRY.levels, GEOMETRY.networks)
    along = random_rays(march)
    got = trace(rays=along, geometry=scene, **given)
    want = _trace_reference(along, geometry=scene, _width=None, **given)
    assert (np.array(want.opacity) > 1e-3).sum() > 20
    for one, other in zip(got[:3], want[:3], strict=True):
        is_same = np.isclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-5)
        assert is_same.mean() > 0.99, "rounding moves a sample over a face here and there"


def test_rays_become_opaque_before_the_next_gray_level(monkeypatch):
    given, along = arguments(), random_rays(GEOMETRY.march)
    given["density_weights"] = 8.0 * given["density_weights"]
    color, opacity, depth = map(np.array, trace(rays=along, geometry=GEOMETRY, **given)[:3])
    monkeypatch.setattr("nerfmac.ops.trace.RENDER_STOP_TRANSMITTANCE", 0.0)
    exact = _trace_reference(along, geometry=GEOMETRY, _width=None, **given)
    light = 1.0 - np.array(exact.opacity)
    stopped = light < 1 / 256 - 1e-5
    assert 40 < stopped.sum() < 360
    assert (opacity[stopped] == 1.0).all()
    np.testing.assert_allclose(
        opacity[light > 1 / 256 + 1e-5], 1.0 - light[light > 1 / 256 + 1e-5], atol=1e-4
    )
    assert np.abs(color - np.array(exact.color)).max() < 1 / 256
    np.testing.assert_allclose(
        depth, np.array(exact.weighted_depth) / np.where(stopped, 1 - light, 1), rtol=0.01
    )


COUNT = 150


def marched_rays(name: str, filled: float = 0.6):
    """Rays and jitter, occupied cells, and how many samples each ray has in them."""
    geometry = GEOMETRIES[name]
    origins, directions, jitter = map(mx.array, some_rays(geometry, COUNT))
    occupied = Occupied(geometry, packed(grid(geometry, filled)))
    marched = count_samples(origins, directions, jitter, occupied)
    return (Rays(origins, directions), jitter), occupied, np.array(marched)


def ends_at(wall: float, samples: Samples) -> np.ndarray:
    """Where rays end if nothing passes the density from x = `wall` on, and there is none before."""
    return np.array(
        termination_distances(mx.where(samples.position[:, 0] > wall, 1e9, 0.0), samples)
    )


@pytest.mark.parametrize("name", GEOMETRIES)
def test_light_ends_at_the_wall_or_goes_on_for_ever(name):
    given, occupied, marched = marched_rays(name)
    rays, jitter = given
    samples = march(*rays[:2], jitter, occupied, 40_000)
    ends = ends_at(0.45, samples)
    starts, x = np.array(samples.ray_start), np.array(samples.position[:, 0])
    distance, width = np.array(samples.distance), np.array(samples.width)
    stopped = 0
    for ray, (begin, end) in enumerate(pairwise(starts)):
        hits = np.flatnonzero(x[begin:end] > 0.45)
        stopped += len(hits) > 0
        # A sample that ends the light counts, though it be the last one of its ray.
        first = begin + hits[0] if len(hits) else None
        want = FAR_DISTANCE if first is None else distance[first] + 0.5 * width[first]
        assert ends[ray] == pytest.approx(want, rel=1e-6)
    assert 10 < stopped < (marched > 0).sum() - 10


def test_where_room_ends_light_is_not_known_to_get_anywhere():
    (rays, jitter), occupied, marched = marched_rays("object")
    fits = np.cumsum(marched) <= marched.sum() // 2
    ends = ends_at(0.45, march(*rays[:2], jitter, occupied, int(marched.sum()) // 2))
    assert (ends[~fits] == 0.0).all()
    assert (ends[fits] > 0.0).all()


@pytest.mark.parametrize("name", GEOMETRIES)
def test_cells_are_lit_where_a_ray_has_a_place_up_to_its_end(name):
    ((rays, jitter), occupied, _), geometry = marched_rays(name), GEOMETRIES[name]
    until = (
        np.random.default_rng(1)
        .uniform(0.0, 2.0 * geometry.bounds.extent, COUNT)
        .astype(np.float32)
    )
    until[::3] = FAR_DISTANCE
    visible = np.array(visible_cells(rays, jitter, mx.array(until), geometry))
    everywhere = mx.full(occupied.bits.shape, 2**32 - 1, mx.uint32)
    places = march(*rays[:2], jitter, Occupied(geometry, everywhere), 200_000)
    assert bool(places.fits.all())
    used = int(places.ray_start[-1])
    cells = np.array(cell_of(places.position, geometry))[:used]
    is_seen = np.array(places.distance)[:used] <= until[np.array(places.ray)[:used]]
    want = np.zeros(geometry.cells, bool)
    want[cells[is_seen]] = True
    assert 50 < want.sum() < geometry.cells // 2
    assert (visible != want).mean() < 1e-3, "rounding moves a place over a face here and there"
    assert (want[cells] != is_seen).any(), "some rays end"


def packed_rays(*rays: list[float], width: float = 0.1) -> tuple[mx.array, Samples]:
    """Densities and samples of rays, at distances 1.05, 1.15, ..., and two slots of no ray."""
    counts = np.array([len(ray) for ray in rays])
    starts = np.concatenate([[0], np.cumsum(counts)])
    place = np.concatenate([*(np.arange(count) for count in counts), [0, 0]])
    density = np.concatenate([*rays, [np.nan, np.nan]])
    values = (
        np.zeros((len(place), 3), np.float32),
        (1.0 + width * (place + 0.5)).astype(np.float32),
        np.full(len(place), width, np.float32),
        np.repeat(np.arange(len(rays) + 1), [*counts, 2]).astype(np.int32),
        starts.astype(np.int32),
        counts.astype(np.int32),
    )
    return mx.array(density, mx.float32), Samples(*map(mx.array, values))


def medians(*rays: list[float]) -> list[float]:
    return median_distance(*packed_rays(*rays)).tolist()


def test_in_even_density_it_is_where_an_exponential_falls_to_one_half():
    sigma = np.array([0.8, 2.0, 11.0, 900.0])
    got = medians(*([value] * 12 for value in sigma))
    np.testing.assert_allclose(got, 1.0 + np.log(2.0) / sigma, rtol=1e-5)


def test_haze_in_front_of_a_surface_moves_the_mean_and_hardly_the_median():
    density, samples = packed_rays([0.0] * 9 + [1e4], [0.4] * 9 + [1e4])
    seen = composite(mx.nan_to_num(density), mx.zeros((len(density), 3)), samples)
    clear, hazy = np.array(seen.weighted_depth / seen.opacity)
    assert hazy < clear - 0.1
    median = median_distance(density, samples)
    np.testing.assert_allclose(np.array(median), 1.9, atol=1e-3)


@pytest.mark.parametrize("densities", [[], [0.0, 0.0], [0.7] * 9, [np.nan, 0.0]])
def test_a_ray_that_stays_above_one_half_has_none(densities):
    assert medians([5.0] * 3, densities, [5.0] * 3)[1] == 0.0


def test_the_depth_is_the_median_times_opacity_and_without_one_as_it_was():
    density, samples = packed_rays([4.0] * 10, [0.1] * 10)
    given = mx.nan_to_num(density), mx.zeros((len(density), 3)), samples
    seen, mean = composite_until_opaque(*given), composite(*given)
    depth = np.array(seen.weighted_depth / seen.opacity)
    assert depth[0] == pytest.approx(1.0 + np.log(2.0) / 4.0, rel=1e-5)
    assert seen.weighted_depth[1] == mean.weighted_depth[1]
