"""Which samples are kept, by the laws of thinning."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite, sample_weights
from nerfmac.ops.thin import count_kept, thin

RANDOM = np.random.default_rng(7)
COUNTS = np.array([0, 40, 1, 300, 0, 75, 7])
SLOTS = int(COUNTS.sum()) + 5
BELOW = 0.02

pytestmark = pytest.mark.usefixtures("on_the_cpu")


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
    for got, want in zip(kept, samples, strict=True):
        used = int(samples.used[0]) if got.shape[0] == SLOTS else None
        np.testing.assert_array_equal(np.array(got)[:used], np.array(want)[:used])


def test_rays_end_where_a_ten_thousandth_of_the_light_is_left():
    density, widths = mx.full((30,), 2.0), mx.full((30,), 0.5)  # each sample passes 1 / e
    ray_start = mx.array([0, 4, 4, 30], mx.int32)
    # exp(-9) is above 1e-4 and exp(-10) below: the tenth sample is the last.
    kept = count_kept(density, widths, ray_start, mx.full((3,), 0.5), 0.0)
    assert kept.tolist() == [4, 0, 10]


def test_samples_that_carry_the_weight_are_all_kept_and_the_others_in_part():
    samples, density = packed_rays(30.0)
    weight = np.array(sample_weights(density, samples.width, samples.ray_start))
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


def test_kept_samples_stand_for_those_left_out():
    samples, density = packed_rays(30.0)
    used = int(samples.used[0])
    optical = []
    for _ in range(400):
        kept = thin(samples, density, offsets(), SLOTS, BELOW)
        sums = np.zeros(len(COUNTS))
        # Each sample's density is found by its position.
        order = {x: i for i, x in enumerate(np.array(samples.position)[:used, 0].tolist())}
        taken = int(kept.used[0])
        index = [order[x] for x in np.array(kept.position)[:taken, 0].tolist()]
        depth = np.array(density)[index] * np.array(kept.width)[:taken]
        np.add.at(sums, np.array(kept.ray)[:taken], depth)
        optical.append(sums)
    visible = thin(samples, density, offsets(), SLOTS, 0.0)
    want = np.zeros(len(COUNTS))
    reached = int(visible.used[0])
    index = [order[x] for x in np.array(visible.position)[:reached, 0].tolist()]
    depth = np.array(density)[index] * np.array(visible.width)[:reached]
    np.add.at(want, np.array(visible.ray)[:reached], depth)
    spread = np.std(optical, axis=0) / np.sqrt(len(optical))
    assert (np.abs(np.mean(optical, axis=0) - want) <= 4 * spread + 1e-5).all()
    assert spread.max() > 0


def test_rays_without_marched_samples_or_without_room_do_not_fit():
    samples, density = packed_rays(0.0)
    samples = samples._replace(wanted=samples.wanted + mx.array([0, 0, 0, 0, 0, 0, 9], mx.int32))
    kept = thin(samples, density, offsets(), 340, 0.0)
    assert kept.fits.tolist() == [True, True, True, False, True, False, False]
    assert kept.wanted.tolist() == [0, 40, 1, 300, 0, 75, 16]
    assert kept.ray_start.tolist() == [0, 0, 40, 41, 41, 41, 41, 41]
    assert not np.array(kept.width)[41:].any()


def test_a_thinned_ray_has_nearly_the_colour_of_the_whole_one():
    samples, density = packed_rays(30.0)
    kept = thin(samples, density, offsets(), SLOTS, 0.002)
    order = {x: i for i, x in enumerate(np.array(samples.position)[:, 0].tolist())}
    index = mx.array([order.get(x, 0) for x in np.array(kept.position)[:, 0].tolist()])
    colour = mx.sin(9.0 * samples.position)
    want = composite(density, colour, samples.distance, samples.width, samples.ray_start)
    got = composite(density[index], colour[index], kept.distance, kept.width, kept.ray_start)
    error = np.abs(np.array(got.opacity) - np.array(want.opacity))
    assert 0 < error.max() < 0.01


def test_wrong_shapes_are_refused():
    samples, density = packed_rays(1.0)
    with pytest.raises(InputError, match="ray_start has shape"):
        thin(samples, density, offsets()[:3], SLOTS, 0.0)
