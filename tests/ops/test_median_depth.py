"""The median depth of rays, by its laws; the self-test compares the kernel with it."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite
from nerfmac.ops.median_depth import median_distance, with_median

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def packed(*rays: list[float], width: float = 0.1) -> tuple[mx.array, Samples]:
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


def medians(*rays: list[float], reaching: list[float] | None = None) -> list[float]:
    density, samples = packed(*rays)
    at_start = mx.ones(len(rays)) if reaching is None else mx.array(reaching)
    return median_distance(density, samples, at_start).tolist()


def test_in_even_density_it_is_where_an_exponential_falls_to_one_half():
    sigma = np.array([0.8, 2.0, 11.0, 900.0])
    got = medians(*([value] * 12 for value in sigma))
    np.testing.assert_allclose(got, 1.0 + np.log(2.0) / sigma, rtol=1e-5)


def test_haze_in_front_of_a_surface_moves_the_mean_and_hardly_the_median():
    density, samples = packed([0.0] * 9 + [1e4], [0.4] * 9 + [1e4])
    seen = composite(mx.nan_to_num(density), mx.zeros((len(density), 3)), samples)
    clear, hazy = np.array(seen.depth / seen.opacity)
    assert hazy < clear - 0.1
    median = median_distance(density, samples, mx.ones(2))
    np.testing.assert_allclose(np.array(median), 1.9, atol=1e-3)


@pytest.mark.parametrize("densities", [[], [0.0, 0.0], [0.7] * 9, [np.nan, 0.0]])
def test_a_ray_that_stays_above_one_half_has_none(densities):
    assert medians([5.0] * 3, densities, [5.0] * 3)[1] == 0.0


def test_samples_in_two_parts_give_the_median_of_the_whole():
    random = np.random.default_rng(2)
    rays = [random.exponential(scale, 20).tolist() for scale in (0.01, 0.5, 0.9, 1.4, 3.0, 40.0)]
    whole = np.array(medians(*rays))
    assert (whole > 0).sum() >= 4
    first = np.array(medians(*(ray[:8] for ray in rays)))
    light = np.exp(-0.1 * np.array([sum(ray[:8]) for ray in rays]))
    second = np.array(medians(*(ray[8:] for ray in rays), reaching=light.tolist()))
    assert not ((first > 0) & (second > 0)).any()
    np.testing.assert_allclose(np.where(second > 0, second + 0.8, first), whole, rtol=1e-4)


def test_the_depth_is_the_median_times_opacity_and_without_one_as_it_was():
    density, samples = packed([4.0] * 10, [0.1] * 10)
    seen = composite(mx.nan_to_num(density), mx.zeros((len(density), 3)), samples)
    median = median_distance(density, samples, mx.ones(2))
    depth, opacity = np.array(with_median(seen, median).depth), np.array(seen.opacity)
    assert depth[0] / opacity[0] == pytest.approx(1.0 + np.log(2.0) / 4.0, rel=1e-5)
    assert depth[1] == np.array(seen.depth)[1]
