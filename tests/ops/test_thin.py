"""Which samples are kept, by the laws of thinning."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import THINNING_UNITS as WHOLE
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite, sample_weights
from nerfmac.ops.thin import thin
from tests.numerics import assert_unbiased

RANDOM = np.random.default_rng(7)
COUNTS = np.array([0, 40, 1, 300, 0, 75, 7])
SLOTS = int(COUNTS.sum()) + 5
BELOW = 0.02

pytestmark = pytest.mark.usefixtures("on_the_cpu", "run_by")


def packed_rays(scale: float) -> tuple[Samples, mx.array]:
    """Rays with `COUNTS` samples, and densities of up to `scale`."""
    starts = np.concatenate([[0], np.cumsum(COUNTS)]).astype(np.int32)
    ray = np.pad(np.repeat(np.arange(len(COUNTS)), COUNTS), (0, 5)).astype(np.int32)
    width = RANDOM.uniform(0.01, 0.02, SLOTS).astype(np.float32)
    distance = (0.02 * (np.arange(SLOTS) - starts[ray])).astype(np.float32)
    position = RANDOM.normal(size=(SLOTS, 3)).astype(np.float32)
    samples = position, distance, width, ray, starts, COUNTS.astype(np.int32)
    density = scale * RANDOM.uniform(size=SLOTS).astype(np.float32) ** 4
    return Samples(*map(mx.array, samples)), mx.array(density)


def offsets() -> mx.array:
    return mx.array(RANDOM.uniform(size=len(COUNTS)).astype(np.float32))


def test_without_a_weight_all_samples_before_the_end_are_kept_as_they_are():
    samples, density = packed_rays(0.0)
    kept = thin(samples, density, offsets(), SLOTS, 0.0)
    for got, want in zip(kept[:-1], samples[:-1], strict=True):
        used = int(samples.used[0]) if got.shape[0] == SLOTS else None
        np.testing.assert_array_equal(np.array(got)[:used], np.array(want)[:used])


def test_rays_end_where_a_ten_thousandth_of_the_light_is_left():
    density, width = mx.full((30,), 2.0), mx.full((30,), 0.5)  # each sample passes 1 / e
    ray_start, wanted = mx.array([0, 4, 4, 30, 30], mx.int32), mx.array([4, 0, 26, 3], mx.int32)
    ray = mx.array([0] * 4 + [2] * 26, mx.int32)
    samples = Samples(mx.zeros((30, 3)), mx.zeros(30), width, ray, ray_start, wanted)
    # exp(-9) is above 1e-4 and exp(-10) below: the tenth sample is the last.
    kept = thin(samples, density, mx.full((4,), 0.5), 30, 0.0)
    assert kept.ray_start.tolist() == [0, 4, 4, 14, 14]
    assert kept.wanted.tolist() == [4, 0, 10, 3], "the last ray had no slots"


def test_samples_that_carry_the_weight_are_all_kept_and_the_others_in_part():
    samples, density = packed_rays(30.0)
    weight = np.array(sample_weights(density, samples))
    kept = thin(samples, density, offsets(), SLOTS, BELOW)
    among = np.isin(np.array(samples.position)[:, 0], np.array(kept.position)[:, 0])
    assert (weight >= BELOW).sum() > 20
    assert among[weight >= BELOW].all()
    light = (weight > 0) & (weight < BELOW)
    chance = np.clip(2.0 ** np.ceil(np.log2(weight[light] / BELOW)), 1 / 32, 1.0)
    assert light.sum() > 100
    # Systematic: a ray's number of samples is its sum of chances, to within one.
    assert abs(among[light].sum() - chance.sum()) < len(COUNTS)
    visible = thin(samples, density, offsets(), SLOTS, 0.0)
    is_hidden = ~np.isin(np.array(samples.position)[:, 0], np.array(visible.position)[:, 0])
    assert is_hidden.sum() > 20
    assert not among[is_hidden].any()


def every_offset() -> list[mx.array]:
    """All offsets that differ, for all rays alike. Their mean is the expectation."""
    return [mx.full((len(COUNTS),), (n + 0.5) / WHOLE) for n in range(WHOLE)]


def thinned(samples: Samples, density: mx.array, offset: mx.array):
    """Return the samples after thinning, and the index of the marched sample in each slot."""
    kept = thin(samples, density, offset, SLOTS, BELOW)
    order = {x: i for i, x in enumerate(np.array(samples.position)[:, 0].tolist())}
    taken = int(kept.used[0])
    index = [order[x] for x in np.array(kept.position)[:taken, 0].tolist()]
    return kept, mx.array(index + [SLOTS - 1] * (SLOTS - taken), mx.int32)


def hazy_rays() -> tuple[Samples, mx.array]:
    """Rays through haze of all densities. One ray hits a wall, and another one ends early."""
    samples, density = packed_rays(3.0)
    values = np.array(density)
    values[200:210], values[:40] = 60.0, 20.0
    return samples, mx.array(values)


def mixed(seed: int, shape: tuple[int, ...]) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def gradients(samples, density, color, index=None, expected=None):
    """Gradients of a mix of all results in density and color, at the marched samples."""
    rays = len(COUNTS)
    mixes = mixed(1, (rays, 3)), mixed(2, (rays,)), mixed(3, (rays,))
    index = mx.arange(SLOTS) if index is None else index

    def loss(density: mx.array, color: mx.array) -> mx.array:
        seen = composite(density[index], color[index], samples, expected)[:3]
        return sum((m * values).sum() for m, values in zip(mixes, seen, strict=True))

    return [np.array(d, np.float64) for d in mx.grad(loss, argnums=(0, 1))(density, color)]


@pytest.fixture(params=[False, True], ids=["black", "expected"])
def expected(request):
    return mx.abs(mixed(5, (len(COUNTS), 3))) if request.param else None


def test_every_offset_leaves_the_opacity_of_the_whole_ray(expected):
    samples, density = hazy_rays()
    color = mx.abs(mixed(4, (SLOTS, 3)))
    want = np.array(composite(density, color, samples, expected).opacity)
    colors = []
    for offset in every_offset():
        kept, index = thinned(samples, density, offset)
        got = composite(density[index], color[index], kept, expected)
        np.testing.assert_allclose(np.array(got.opacity), want, atol=2e-6)
        colors.append(np.array(got.color))
    assert np.std(colors, axis=0).max() > 1e-3, "nothing was left to chance"


def test_the_mean_over_offsets_is_the_whole_ray(expected):
    samples, density = hazy_rays()
    color = mx.abs(mixed(4, (SLOTS, 3)))
    *whole, _ = composite(density, color, samples, expected)
    sums = [np.zeros(values.shape) for values in whole]
    for offset in every_offset():
        kept, index = thinned(samples, density, offset)
        got = composite(density[index], color[index], kept, expected)[:3]
        for total, values in zip(sums, got, strict=True):
            total += np.array(values, np.float64) / WHOLE
    for total, want in zip(sums, whole, strict=True):
        np.testing.assert_allclose(total, np.array(want), atol=5e-6)


def test_the_mean_of_the_gradients_is_that_of_the_whole_ray(expected):
    samples, density = hazy_rays()
    color = mx.abs(mixed(4, (SLOTS, 3)))
    want = gradients(samples, density, color, expected=expected)
    drawn = []
    for offset in every_offset():
        kept, index = thinned(samples, density, offset)
        drawn.append(gradients(kept, density, color, index, expected))
    mean = [np.mean(each, axis=0) for each in zip(*drawn, strict=True)]
    np.testing.assert_allclose(mean[1], want[1], atol=2e-6, err_msg="color")
    weight = np.array(sample_weights(density, samples))
    always, seldom = weight >= BELOW / 2, (weight > 0) & (weight < BELOW / 2)
    scale = np.abs(want[0]).max()
    np.testing.assert_allclose(mean[0][always], want[0][always], atol=2e-5 * scale)
    assert_unbiased(mean[0], want[0], name="d density")
    # An error of the order of BELOW; the law is in the next test.
    error = np.abs(mean[0] - want[0])[seldom]
    assert seldom.sum() > 50
    assert error.max() < 4.0 * BELOW * scale
    assert error.sum() < 0.1 * np.abs(want[0][seldom]).sum()


def test_the_bias_of_density_gradients_follows_from_the_pairs_that_are_kept(expected):
    samples, density = hazy_rays()
    color, mix = mx.abs(mixed(4, (SLOTS, 3))), mixed(1, (len(COUNTS), 3))

    def gradient(kept: Samples, index: mx.array) -> np.ndarray:
        def loss(density: mx.array) -> mx.array:
            return (mix * composite(density[index], color[index], kept, expected).color).sum()

        return np.array(mx.grad(loss)(density), np.float64)

    mean, is_kept = np.zeros(SLOTS), np.zeros((WHOLE, SLOTS))
    for number, offset in enumerate(every_offset()):
        kept, index = thinned(samples, density, offset)
        mean += gradient(kept, index) / WHOLE
        is_kept[number, np.array(index)[: int(kept.used[0])]] = 1.0
    chance, pairs = is_kept.mean(axis=0), is_kept.T @ is_kept / WHOLE
    ray, weight = np.array(samples.ray), np.array(sample_weights(density, samples), np.float64)
    relative = np.array(color - (0.0 if expected is None else expected[samples.ray]))
    value = weight * (np.array(mix)[ray] * relative).sum(axis=1)
    both = np.outer(chance, chance)
    lacking = np.where(both > 0, 1.0 - pairs / np.maximum(both, 1e-9), 0.0)
    lacking *= np.triu(ray[:, None] == ray, 1)
    want = np.array(samples.width) * (lacking @ value)
    bias = mean - gradient(samples, mx.arange(SLOTS))
    assert np.abs(want).max() > 1e-4
    np.testing.assert_allclose(bias, want, atol=2e-3 * np.abs(want).max())


def test_black_haze_has_no_noise():
    samples, density = hazy_rays()
    background = mx.abs(mixed(6, (len(COUNTS), 3)))
    seen = []
    for offset in every_offset():
        kept, index = thinned(samples, density, offset)
        got = composite(density[index], mx.zeros((SLOTS, 3)), kept)
        seen.append(np.array(got.color + (1.0 - got.opacity[:, None]) * background))
    assert np.ptp(seen, axis=0).max() < 5e-6


def test_noise_does_not_reward_haze_of_the_expected_color():
    # The error of a ray and the gradient of its color are correlated: their product has a bias.
    samples, density = hazy_rays()
    target = mx.abs(mixed(7, (len(COUNTS), 3)))
    color = target[samples.ray]
    background = mx.abs(mixed(6, (len(COUNTS), 3)))

    def slope(expected: mx.array | None) -> float:
        total = 0.0
        for offset in every_offset():
            kept, index = thinned(samples, density, offset)

            def loss(density: mx.array, kept=kept, index=index) -> mx.array:
                seen = composite(density[index], color[index], kept, expected)
                through = 1.0 - seen.opacity[:, None]
                aim = mx.stop_gradient(target * (1.0 - through) + through * background)
                return mx.square(seen.color + through * background - aim).sum()

            total += float((mx.grad(loss)(density) * density).sum()) / WHOLE
        return total

    assert abs(slope(target)) < 1e-6
    assert slope(None) < -1e-5


def test_where_all_samples_are_kept_all_bits_are_those_of_the_whole_ray():
    samples, density = packed_rays(2.0)
    color = mixed(4, (SLOTS, 3))
    kept = thin(samples, density, offsets(), SLOTS, 0.0)
    assert kept.used.tolist() == samples.used.tolist()
    for got, want in zip(
        (*composite(density, color, kept)[:3], *gradients(kept, density, color)),
        (*composite(density, color, samples)[:3], *gradients(samples, density, color)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.array(got), np.array(want))


def test_rays_without_marched_samples_or_without_room_do_not_fit():
    samples, density = packed_rays(0.0)
    samples = samples._replace(wanted=samples.wanted + mx.array([0, 0, 0, 0, 0, 0, 9], mx.int32))
    kept = thin(samples, density, offsets(), 340, 0.0)
    assert kept.fits.tolist() == [True, True, True, False, True, False, False]
    assert kept.wanted.tolist() == [0, 40, 1, 300, 0, 75, 16]
    assert kept.ray_start.tolist() == [0, 0, 40, 41, 41, 41, 41, 41]
    assert not np.array(kept.width)[41:].any()
