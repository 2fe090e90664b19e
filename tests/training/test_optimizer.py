"""Adam and the average of the parameters, against NumPy's float64."""

from dataclasses import replace
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.config import OptimizerConfig
from nerfmac.ops.adam import adam_step, most_first, pack_moments, unpack_moments
from nerfmac.training.optimizer import (
    AVERAGED_EVERY,
    OptimizerState,
    StepNumbers,
    adam,
    averaged,
    is_averaged,
    newest_weight,
    no_moments,
    step_numbers,
)

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROUNDOFF = 2.0**-24
CONFIG = OptimizerConfig(rate=0.03, networks=0.4, beta1=0.8, beta2=0.95, l2=0.02, average=0.7)
DECAYED = frozenset({"density", "color"})
MOST = most_first(0.8, 0.95)
ONE = mx.array([1.0])
RATES = 0.03 * 0.9 ** np.arange(10)


def start() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {
        name: random.normal(size=shape)
        for name, shape in (("table", (7, 2)), ("density", (9,)), ("color", (5,)))
    }


def gradients(step: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(100 + step)
    return {name: random.normal(size=values.shape) + 0.5 for name, values in start().items()}


def numbers_of(*arguments) -> StepNumbers:
    return StepNumbers.of(mx.array(step_numbers(*arguments)))


def fresh(values: dict[str, np.ndarray]) -> OptimizerState:
    parameters = {name: mx.array(each, mx.float32) for name, each in values.items()}
    return OptimizerState(parameters, no_moments(parameters))


def stepped(now: OptimizerState, slopes, step: int, rate: float, config=CONFIG) -> OptimizerState:
    given = {name: mx.array(each, mx.float32) for name, each in slopes.items()}
    return adam(now, given, numbers_of(step, float(rate) / config.rate, config), DECAYED, ONE)


def ten_steps(config: OptimizerConfig = CONFIG) -> list[OptimizerState]:
    now, states = fresh(start()), []
    for step in range(1, 11):
        now = stepped(now, gradients(step), step, RATES[step - 1], config)
        states.append(now)
    return states


def test_ten_steps_are_kingmas_and_bas_with_bias_correction():
    values, first, second = start(), {}, {}
    for step, got in enumerate(ten_steps(), start=1):
        for name, slope in gradients(step).items():
            decayed = slope + (0.02 * values[name] if name != "table" else 0.0)
            first[name] = 0.8 * first.get(name, 0.0) + 0.2 * decayed
            second[name] = 0.95 * second.get(name, 0.0) + 0.05 * decayed**2
            unbiased = first[name] / (1 - 0.8**step), second[name] / (1 - 0.95**step)
            rate = RATES[step - 1] * (0.4 if name != "table" else 1.0)
            move = rate * unbiased[0] / (np.sqrt(unbiased[1]) + CONFIG.epsilon)
            values[name] = values[name] - move
            kept = unpack_moments(got.moments[name], MOST)
            assert_matches(got.parameters[name], values[name], rel=1e-4, name=f"{name} {step}")
            assert_matches(kept[0], first[name], rel=3e-3, name=f"first {step}")
            assert_matches(kept[1], second[name], rel=2e-4, name=f"second {step}")


def test_the_average_weighs_the_past_by_its_age():
    # If a step does not update the average, the next update includes the weight of the step.
    taken = [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32]
    assert [step for step in range(1, 40) if is_averaged(step)] == taken
    random = np.random.default_rng(9)
    average = {"table": mx.full((4, 2), 7.0)}
    seen, ages = [], []
    for before, step in pairwise([0, *taken]):
        seen.append(random.normal(size=(4, 2)))
        ages.append(range(before + 1, step + 1))
        parameters = {"table": mx.array(seen[-1], mx.float32)}
        average = averaged(average, parameters, mx.array(newest_weight(step, CONFIG)), mx.array(0))
        weights = np.array([sum(0.7 ** (step - each) for each in age) for age in ages])
        want = np.tensordot(weights / weights.sum(), np.stack(seen), axes=1)
        assert_matches(average["table"], want, rel=64 * ROUNDOFF, name=f"step {step}")
    assert taken[-1] > 3 * AVERAGED_EVERY


def test_after_the_first_step_the_average_is_the_parameters_and_not_their_start():
    parameters = fresh(start()).parameters
    begun = {name: -values for name, values in parameters.items()}
    weight = mx.array(newest_weight(1, CONFIG))
    got = averaged(begun, parameters, weight, mx.array(0))
    after_skip = averaged(begun, parameters, weight, mx.array(1))
    for name, values in parameters.items():
        assert_matches(got[name], values, rel=4 * ROUNDOFF, name=name)
        assert np.array_equal(after_skip[name], begun[name])


def test_an_entry_that_never_had_a_gradient_does_not_move():
    now = fresh(start())
    for step in range(1, 4):
        slopes = gradients(step)
        slopes["table"][3:5] = 0.0
        now = stepped(now, slopes, step, 0.03)
    moved = np.array(now.parameters["table"]) != start()["table"].astype(np.float32)
    assert (moved.all(axis=1) == ~np.isin(np.arange(7), [3, 4])).all()


def test_an_entry_stays_with_its_moments_while_it_has_no_gradient():
    before = stepped(fresh(start()), gradients(1), 1, 0.03)
    slopes = gradients(2)
    slopes["table"][3:5] = 0.0
    after = stepped(before, slopes, 2, 0.03)
    for earlier, later in zip(before, after, strict=True):
        is_moved = np.array(earlier["table"]) != np.array(later["table"])
        assert (is_moved.all(axis=1) == ~np.isin(np.arange(7), [3, 4])).all()
        assert (is_moved.any(axis=1) == ~np.isin(np.arange(7), [3, 4])).all()


def test_the_size_of_a_gradient_does_not_matter_down_to_tiny_ones():
    # The square of 1e-12 is still a normal float32, and epsilon a thousandth of it.
    for size in (1.0, 1e-6, 1e-12):
        slopes = {name: size * each for name, each in gradients(1).items()}
        got = stepped(fresh(start()), slopes, 1, 0.03, replace(CONFIG, l2=0.0, epsilon=1e-15))
        want = stepped(fresh(start()), gradients(1), 1, 0.03, replace(CONFIG, l2=0.0))
        for name, values in want.parameters.items():
            assert_matches(got.parameters[name], values, rel=1e-3, name=f"{name} at {size}")


def test_no_gradients_make_the_first_moment_more_than_its_bound():
    random = np.random.default_rng(3)
    drawn = [random.standard_cauchy(400) for _ in range(50)]
    # Those that reach it, by Cauchy and Schwarz, grow by beta2 / beta1 with each step of age.
    drawn.append((0.95 / 0.8) ** -np.arange(400.0))
    for gradient in drawn:
        first = second = 0.0
        for each in gradient:
            first, second = 0.8 * first + 0.2 * each, 0.95 * second + 0.05 * each**2
        assert abs(first) <= MOST * np.sqrt(second) * (1 + 1e-12)
    ages = np.arange(400.0)
    reaching = (0.8 / 0.95) ** ages
    first, second = (0.2 * 0.8**ages * reaching).sum(), (0.05 * 0.95**ages * reaching**2).sum()
    assert first == pytest.approx(MOST * np.sqrt(second))


def test_packed_moments_keep_the_second_to_a_part_in_8192_and_the_first_to_its_steps():
    random = np.random.default_rng(4)
    second = mx.array(10.0 ** random.uniform(-30, 30, 5000), mx.float32)
    fraction = random.uniform(-1, 1, 5000)
    first = mx.array(fraction, mx.float32) * MOST * mx.sqrt(second)
    got_first, got_second = unpack_moments(pack_moments(first, second, MOST), MOST)
    assert np.abs(np.array(got_second) / np.array(second) - 1).max() <= 2.0**-13
    bound = MOST * np.sqrt(np.array(second, np.float64))
    assert np.abs((np.array(got_first) - np.array(first)) / bound).max() <= 0.51 / 2047 + 2.0**-14
    nothing = pack_moments(mx.zeros(3), mx.zeros(3), MOST)
    assert all((np.array(each) == 0).all() for each in unpack_moments(nothing, MOST))


@pytest.mark.parametrize("disabled", ["", "1"])
def test_what_packing_rounds_does_not_keep_moments_from_falling(disabled, monkeypatch):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", disabled)
    numbers, random = numbers_of(1, 0.0, OptimizerConfig()).plain, np.random.default_rng(5)
    most, values = most_first(0.9, 0.99), mx.zeros(2000)
    moments = mx.zeros(2000, mx.uint32)
    for size in (1.0,) * 60 + (1e-4,) * 100:
        gradient = mx.array(size * (1.0 + random.normal(size=2000)), mx.float32)
        values, moments = adam_step(values, moments, gradient, ONE, numbers)
    first, second = map(np.array, unpack_moments(moments, most))
    assert second.mean() == pytest.approx(2.0 * (1 - 0.99**60) * 0.99**100, rel=0.1)
    step = most * np.sqrt(second) / 2047
    assert abs((first / step).mean()) < 0.25  # rounded to the nearest, five steps would be left


@pytest.mark.parametrize("disabled", ["", "1"])
def test_a_factor_of_zero_changes_nothing_whatever_the_gradient(disabled, monkeypatch):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", disabled)
    now = stepped(fresh(start()), gradients(1), 1, 0.03)
    spoilt = {name: np.full(each.shape, np.nan) for name, each in start().items()}
    spoilt["table"][:3] = np.inf, 1.0
    given = {name: mx.array(each, mx.float32) for name, each in spoilt.items()}
    after = adam(now, given, numbers_of(2, 0.03, CONFIG), DECAYED, mx.array([0.0]))
    for one, other in zip(now, after, strict=True):
        for name, values in one.items():
            assert np.array(values).tobytes() == np.array(other[name]).tobytes(), name


@pytest.mark.parametrize("disabled", ["", "1"])
def test_the_factor_multiplies_the_gradient_and_not_the_penalty(disabled, monkeypatch):
    monkeypatch.setenv("NERFMAC_DISABLE_KERNELS", disabled)
    given = {name: mx.array(each, mx.float32) for name, each in gradients(1).items()}
    larger = {name: 8.0 * each for name, each in given.items()}
    numbers = numbers_of(1, 0.03, CONFIG)
    one = adam(fresh(start()), given, numbers, DECAYED, ONE)
    other = adam(fresh(start()), larger, numbers, DECAYED, mx.array([0.125]))
    for name in given:
        assert_matches(other.parameters[name], one.parameters[name], rel=0.0, name=name)
