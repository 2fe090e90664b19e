"""Images fit the time there is, and are no smaller than helps."""

import random

import pytest

from nerfmac.app.viewer.pixel_budget import (
    GROWTH,
    LATE,
    MIN_FRACTION,
    SCALES,
    PixelBudget,
)

FULL = 1280 * 720


def draw(budget, images, *, fixed, cost, full=FULL, noise=lambda: 1.0):
    """The scales of `images`, each of which takes `fixed` seconds and `cost` more a pixel."""
    scales = []
    for _ in range(images):
        scales.append(budget.scale(full))
        pixels = int(full * scales[-1] ** 2)
        budget.learn(pixels, (fixed + cost * pixels) * noise())
    return scales


def settled(cost, seconds, *, fixed=0.0):
    """The budget and the scale where it comes to rest."""
    budget = PixelBudget(seconds, 2**14)
    scales = draw(budget, 60, fixed=fixed, cost=cost)
    assert len(set(scales[-20:])) == 1, "it swings"
    return budget, scales[-1]


@pytest.mark.parametrize("fixed", [0.0, 0.008, 0.1])
@pytest.mark.parametrize("cost", [3e-9, 5e-8, 2e-7, 1e-6])
@pytest.mark.parametrize("seconds", [1 / 60, 0.2])
def test_images_come_to_fill_their_time(fixed, cost, seconds):
    _, scale = settled(cost, seconds, fixed=fixed)
    allowed = max(seconds, 2.0 * fixed)
    taken = fixed + cost * FULL * scale**2
    assert scale in SCALES
    assert taken <= LATE * allowed or scale**2 == pytest.approx(MIN_FRACTION)
    assert scale == 1.0 or fixed + 2.0 * cost * FULL * scale**2 > 0.99 * allowed


def test_an_image_of_unknown_cost_has_few_pixels_and_the_next_one_few_times_as_many():
    budget = PixelBudget(0.15, 2**11)
    assert budget.scale(2**21) == 1 / 32
    budget.learn(2**11, 0.01)
    assert 2**21 * budget.scale(2**21) ** 2 <= GROWTH * 2**11


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_spiky", [False, True])
def test_a_busy_machine_does_not_make_images_collapse(seed, is_spiky):
    budget, dice = PixelBudget(1 / 60, 2**14), random.Random(seed)

    def noise():
        if is_spiky:
            return 5.0 if dice.random() < 0.15 else 1.0
        return dice.lognormvariate(0.0, 0.4)

    draw(budget, 30, fixed=0.005, cost=5e-8)
    scales = draw(budget, 500, fixed=0.005, cost=5e-8, noise=noise)
    assert min(scales) ** 2 >= 0.99 / 8
    assert sum(scales) / len(scales) >= 0.8 * 0.5  # without noise it is half


def test_one_late_image_changes_nothing():
    budget, scale = settled(1e-7, 0.1)
    pixels = int(FULL * scale**2)
    for _ in range(20):
        budget.learn(pixels, 100.0)  # a compiler ran
        assert budget.scale(FULL) == scale
        budget.learn(pixels, 0.07)
        assert budget.scale(FULL) == scale


def test_an_image_has_at_most_the_maximum_number_of_pixels():
    budget = PixelBudget(1.0, pixels=2**20)
    budget.learn(2**18, 0.01)
    assert budget.scale(2**20) > 0.5
    assert 2**20 * budget.scale(2**20, max_pixels=2**14) ** 2 == 2**14


@pytest.mark.parametrize("haze", [0.6, 0.9])
def test_images_stay_in_time_while_training_removes_haze(haze):
    """Without stability, images of different ages are not compared to estimate a fixed time."""
    budget, pixels, times = PixelBudget(0.11, 2**14, is_stable=False), 846 * 480, []
    for image in range(30):
        drawn = pixels * budget.scale(pixels) ** 2
        times.append((1.5e-6 + 1.4e-5 * haze**image) * drawn)
        budget.learn(int(drawn), times[-1])
    assert max(times[5:]) <= 1.3 * 0.11
    assert times[-1] > 0.4 * 0.11
