"""Hierarchical sampling: sample positions, intervals, and the choice of fine samples."""

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac import Bounds, Composited, FieldOutput, Rays, Samples
from nerfmac.sampling.hierarchical import HierarchicalSampler, invert, stratified

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROUNDOFF = 2.0**-24
NEAR = 0.2
COARSE, FINE = 24, 40
MISS, ALONG_A_FACE = 0, 1


def rays_around(extent: float, rays: int = 37) -> Rays:
    """Rays from inside and outside the cube; one misses it, one runs along an axis outside it."""
    random = np.random.default_rng(rays)
    origin = 0.5 + extent * random.uniform(-1.5, 1.5, (rays, 3))
    target = 0.5 + extent * random.uniform(-0.45, 0.45, (rays, 3))
    target[MISS] = 2 * origin[MISS] - 0.5
    origin[MISS] = 0.5 + extent * np.array([0.7, -0.2, 0.1])
    target[MISS] = origin[MISS] + (0.5, 0.1, -0.2)
    origin[ALONG_A_FACE] = 0.5 + extent * np.array([-0.8, 0.6, 0.3])
    target[ALONG_A_FACE] = origin[ALONG_A_FACE] + (1.0, 0.0, 0.0)
    direction = target - origin
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return Rays(mx.array(origin, mx.float32), mx.array(direction, mx.float32))


def chords(rays: Rays, extent: float) -> tuple[np.ndarray, np.ndarray]:
    """Where each ray enters and leaves the cube, in float64; NaN for a miss."""
    origin, direction = (np.array(each, np.float64) for each in rays[:2])
    with np.errstate(divide="ignore"):
        ends = [(0.5 + side * extent / 2 - origin) / direction for side in (-1, 1)]
    enter = np.maximum(np.minimum(*ends).max(axis=1), NEAR)
    leave = np.maximum(*ends).min(axis=1)
    return np.where(leave > enter, (enter, leave), np.nan)


def empty(parameters, samples, rays):
    density = mx.zeros(samples.distance.shape)
    return FieldOutput(density, mx.full(samples.position.shape, 0.3))


def matter(density):
    """A proposal of the given `density`, a function of positions (slots, 3)."""

    def proposal(parameters, samples, rays):
        return FieldOutput(density(samples.position), mx.sigmoid(samples.position))

    return proposal


def sampled(
    rays: Rays, proposal, extent: float = 1.0, drawn: mx.array | None = None
) -> tuple[Samples, Composited]:
    sampler = HierarchicalSampler(proposal, Bounds(extent), NEAR, (COARSE, FINE), 0.1)
    if drawn is None:
        drawn = mx.full((rays.origin.shape[0], sampler.draws), 0.5)
    return sampler.sample({}, {}, rays, drawn)[:2]


def random_draws(rays: int) -> mx.array:
    return mx.random.uniform(shape=(rays, COARSE + FINE), key=mx.random.key(9))


def by_ray(values: mx.array, samples: int = COARSE + FINE) -> np.ndarray:
    return np.array(values, np.float64).reshape(-1, samples, *values.shape[1:])


def lopsided(position: mx.array) -> mx.array:
    return 30.0 * mx.sigmoid(12.0 * (position[:, 0] - 0.3)) * mx.exp(-3.0 * position[:, 2])


@pytest.mark.parametrize("extent", [1.0, 3.0])
@pytest.mark.parametrize("proposal", [empty, matter(lopsided)], ids=["empty", "lopsided"])
def test_samples_increase_along_each_ray_inside_the_cube_and_beyond_near(extent, proposal):
    rays = rays_around(extent)
    samples, _ = sampled(rays, proposal, extent, random_draws(37))
    enter, leave = chords(rays, extent)
    hit = ~np.isnan(enter)
    assert 20 < hit.sum() < 37
    assert (enter[hit] == NEAR).any(), "no ray begins inside"
    distance = by_ray(samples.distance)
    assert (np.diff(distance, axis=1) >= 0.0).all()
    assert (np.diff(distance[hit], axis=1) > 0.0).mean() > 0.99
    slack = 8 * extent * ROUNDOFF
    assert (distance[hit] > enter[hit, None] - slack).all()
    assert (distance[hit] < leave[hit, None] + slack).all()
    origin, direction = (np.array(each, np.float64)[:, None] for each in rays[:2])
    want = origin + direction * distance[..., None]
    assert_matches(by_ray(samples.position), want, rel=8 * ROUNDOFF, name="position")


@pytest.mark.parametrize("proposal", [empty, matter(lopsided)], ids=["empty", "lopsided"])
def test_widths_are_the_intervals_between_midpoints_and_sum_up_to_the_chord(proposal):
    rays = rays_around(3.0)
    samples, _ = sampled(rays, proposal, 3.0, random_draws(37))
    enter, leave = chords(rays, 3.0)
    hit = ~np.isnan(enter)
    distance, width = by_ray(samples.distance)[hit], by_ray(samples.width)[hit]
    assert_matches(width.sum(axis=1), (leave - enter)[hit], rel=64 * ROUNDOFF, name="chord")
    middle = (distance[:, 1:] + distance[:, :-1]) / 2
    ends = np.concatenate([enter[hit, None], middle, leave[hit, None]], axis=1)
    # A distance from the origin is up to 500 widths long, and rounded.
    assert_matches(width, np.diff(ends), rel=4 * 500 * ROUNDOFF, name="width")


def test_each_ray_owns_as_many_slots():
    samples, _ = sampled(rays_around(1.0), empty)
    assert samples.ray_start.tolist() == [64 * ray for ray in range(38)]
    assert samples.ray.tolist() == [ray for ray in range(37) for _ in range(64)]
    assert samples.fits.tolist() == [True] * 37


def test_each_bin_of_a_ray_has_one_coarse_sample_where_its_draw_says():
    rays, drawn, seen = rays_around(3.0), random_draws(37), []

    def spy(parameters, samples, rays):
        seen.append(samples)
        return empty(parameters, samples, rays)

    sampled(rays, spy, 3.0, drawn)
    (coarse,) = seen
    enter, leave = chords(rays, 3.0)
    hit = ~np.isnan(enter)
    place = (by_ray(coarse.distance, COARSE) - enter[:, None]) / (leave - enter)[:, None]
    want = np.arange(COARSE) + np.array(drawn, np.float64)[:, :COARSE]
    assert_matches(COARSE * place[hit], want[hit], rel=256 * ROUNDOFF, name="place in bins")


@pytest.mark.parametrize("draws", [lambda rays: mx.full((rays, 64), 0.5), random_draws])
def test_without_weight_the_fine_samples_are_spread_evenly_by_draws_of_their_own(draws):
    rays, drawn = rays_around(1.0), draws(37)
    samples, _ = sampled(rays, empty, 1.0, drawn)
    enter, leave = chords(rays, 1.0)
    hit = ~np.isnan(enter)
    place = (by_ray(samples.distance) - enter[:, None]) / (leave - enter)[:, None]
    coarse, fine = np.split(np.array(drawn, np.float64), [COARSE], axis=1)
    evenly = [(np.arange(COARSE) + coarse) / COARSE, (np.arange(FINE) + fine) / FINE]
    want = np.sort(np.concatenate(evenly, axis=1), axis=1)
    assert_matches(place[hit], want[hit], rel=256 * ROUNDOFF, name="place")


def test_places_invert_the_cumulative_weight():
    random = np.random.default_rng(2)
    edges = np.sort(random.uniform(size=(5, 12)), axis=1)
    edges[:, 0], edges[:, -1] = 0.0, 1.0
    weight = random.gamma(0.4, size=(5, 11))
    weight[1, 3:9] = 0.0  # a gap; only the fractions at its ends fall into it
    weight[2, :-1] = 0.0
    fraction = np.sort(random.uniform(size=(5, 50)), axis=1)
    arrays = (mx.array(each, mx.float32) for each in (edges, weight, fraction))
    place = np.array(invert(*arrays), np.float64)
    before = [
        np.interp(place[ray], edges[ray], np.cumsum([0.0, *weight[ray]]) / weight[ray].sum())
        for ray in range(5)
    ]
    # A thousandth of weight is spread evenly besides.
    assert np.abs(np.array(before) - fraction).max() < 1.1e-3 / weight.sum(axis=1).min()
    assert (np.diff(place, axis=1) >= 0.0).all()


def test_fine_samples_follow_the_light_that_an_even_fog_behind_a_gap_returns():
    # Inverse of (1 - exp(-density s)) relative to its value at full depth, for depth s in the fog.
    density, wall, coarse, fine = 9.0, 0.35, 512, 40
    rays = Rays(mx.array([[-0.3, 0.4, 0.7]]), mx.array([[1.0, 0.0, 0.0]]))
    fog = matter(lambda p: mx.where(p[:, 0] > wall, density, 0.0))
    sampler = HierarchicalSampler(fog, Bounds(1.0), NEAR, (coarse, fine), 0.1)
    samples = sampler.sample({}, {}, rays, mx.full((1, sampler.draws), 0.5)).samples
    x = np.array(samples.position, np.float64)[:, 0]
    evenly = (np.arange(coarse) + 0.5) / coarse
    found = [each for each in x if np.abs(evenly - each).min() > 1e-6]
    u = (np.arange(fine) + 0.5) / fine
    want = wall - np.log(1.0 - u * (1.0 - np.exp(-density * (1.0 - wall)))) / density
    assert len(found) == fine
    assert np.abs(found - want).max() < 1.5 / coarse


def test_matter_behind_a_wall_draws_no_fine_samples():
    walls = matter(lambda p: mx.where(mx.abs(mx.abs(p[:, 0] - 0.6) - 0.2) < 0.05, 400.0, 0.0))
    rays = Rays(mx.array([[-0.3, 0.4, 0.7]]), mx.array([[1.0, 0.0, 0.0]]))  # walls at 0.4 and 0.8
    samples, seen = sampled(rays, walls)
    x = np.array(samples.position)[:, 0]
    assert ((x > 0.3) & (x < 0.47)).sum() >= FINE
    assert (x > 0.5).sum() == (np.arange(COARSE) + 0.5 > COARSE / 2).sum()
    assert seen.opacity.item() == pytest.approx(1.0)
    assert 0.55 < seen.weighted_depth.item() < 0.75


def test_a_ray_that_misses_the_cube_sees_nothing():
    rays = rays_around(1.0)
    thick = matter(lambda p: mx.full(p.shape[:1], 1e6))
    samples, seen = sampled(rays, thick, 1.0, random_draws(37))
    missed = np.isnan(chords(rays, 1.0)[0])
    assert missed[[MISS, ALONG_A_FACE]].all()
    assert (by_ray(samples.width)[missed] == 0.0).all()
    assert (np.array(seen.opacity)[missed] == 0.0).all()
    assert (np.array(seen.color)[missed] == 0.0).all()
    assert (np.array(seen.opacity)[~missed] > 0.99).all()
    assert np.isfinite(np.array(samples.position)).all()
    assert np.abs(by_ray(samples.distance)[missed] - NEAR).max() < 1e-6, "near, not far away"


def test_the_proposal_is_seen_with_a_gradient_and_the_samples_have_none():
    rays = rays_around(1.0)

    def both(scale: mx.array, what) -> mx.array:
        fog = matter(lambda p: scale * lopsided(p))
        return what(*sampled(rays, fog))

    def opacity(scale: float) -> float:
        return both(mx.array(scale), lambda _, seen: seen.opacity.sum()).item()

    slope = mx.grad(lambda s: both(s, lambda _, seen: seen.opacity.sum()))(mx.array(0.2))
    assert slope.item() == pytest.approx((opacity(0.202) - opacity(0.198)) / 0.004, rel=1e-2)
    for name in ("distance", "width", "position"):
        slope = mx.grad(lambda s, n=name: both(s, lambda s, _: getattr(s, n).sum()))
        assert slope(mx.array(0.2)).item() == 0.0
        slope = mx.grad(lambda o, n=name: getattr(sampled(Rays(o, rays[1]), empty)[0], n).sum())
        assert not mx.any(slope(rays.origin)).item()
    moved = [np.array(both(mx.array(s), lambda s, _: s.distance)) for s in (0.2, 2.0)]
    assert np.abs(moved[0] - moved[1]).max() > 0.01, "the samples do not depend on the proposal"


def test_the_compiled_sampler_is_the_same():
    rays, drawn = rays_around(1.0), random_draws(37)
    plain, _ = sampled(rays, matter(lopsided), 1.0, drawn)
    run = mx.compile(lambda *a: sampled(Rays(*a[:2]), matter(lopsided), 1.0, a[2])[0])
    compiled = run(*rays[:2], drawn)
    for name in ("position", "distance", "width"):
        got, want = (getattr(each, name) for each in (compiled, plain))
        # Fused sums are rounded otherwise, and a width is a small difference of distances.
        assert_matches(got, want, rel=4 * 500 * ROUNDOFF, name=name)


@pytest.mark.parametrize("draw", [0.0, 1.0 - 2.0**-24])
def test_extreme_draws_stay_on_the_ray(draw):
    random = np.random.default_rng(3)
    edges = np.linspace(0.0, 1.0, 12) + np.zeros((500, 1))
    weight = random.gamma(0.1, size=(500, 11))
    fraction = stratified(mx.full((500, 128), draw))  # rounded, the last one is 1
    place = np.array(invert(mx.array(edges, mx.float32), mx.array(weight, mx.float32), fraction))
    assert place.min() >= 0.0
    assert place.max() <= 1.0
