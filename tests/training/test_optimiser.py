"""Adam and the average of the parameters, against NumPy's float64."""

from dataclasses import replace
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.backend import choose_device
from nerfmac.config import OptimiserConfig
from nerfmac.training.optimiser import (
    AVERAGED_EVERY,
    Updated,
    adam,
    averaged,
    is_averaged,
    newest_weight,
    step_numbers,
    zeros_like,
)

ROUNDOFF = 2.0**-24
CONFIG = OptimiserConfig(rate=0.03, networks=0.4, beta1=0.8, beta2=0.95, l2=0.02, average=0.7)
DECAYED = frozenset({"density", "colour"})
RATES = 0.03 * 0.9 ** np.arange(10)


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def start() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {
        name: random.normal(size=shape)
        for name, shape in (("table", (7, 2)), ("density", (9,)), ("colour", (5,)))
    }


def gradients(step: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(100 + step)
    return {name: random.normal(size=values.shape) + 0.5 for name, values in start().items()}


def fresh(values: dict[str, np.ndarray]) -> Updated:
    parameters = {name: mx.array(each, mx.float32) for name, each in values.items()}
    return Updated(parameters, zeros_like(parameters), zeros_like(parameters))


def stepped(now: Updated, slopes, step: int, rate: float, config=CONFIG) -> Updated:
    given = {name: mx.array(each, mx.float32) for name, each in slopes.items()}
    return adam(now, given, step_numbers(step, float(rate), config), DECAYED)


def ten_steps(config: OptimiserConfig = CONFIG) -> list[Updated]:
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
            rel = 32 * step * ROUNDOFF
            assert_matches(got.parameters[name], values[name], rel=rel, name=f"{name} {step}")
            assert_matches(got.first_moment[name], first[name], rel=rel, name=f"first {step}")
            assert_matches(got.second_moment[name], second[name], rel=rel, name=f"second {step}")


def test_the_first_step_moves_each_parameter_by_the_rate_against_its_gradient():
    slopes = {name: each * 1e-3 for name, each in gradients(1).items()}
    got = stepped(fresh(start()), slopes, 1, 0.03, replace(CONFIG, l2=0.0))
    for name, before in start().items():
        rate = 0.03 * (0.4 if name != "table" else 1.0)
        want = before - rate * np.sign(slopes[name])
        assert_matches(got.parameters[name], want, rel=16 * ROUNDOFF, name=name)


def test_the_average_weighs_the_past_by_its_age():
    # A step on which the average is not brought up to date leaves its weight to the next that is.
    taken = [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32]
    assert [step for step in range(1, 40) if is_averaged(step)] == taken
    random = np.random.default_rng(9)
    average = {"table": mx.full((4, 2), 7.0)}
    seen, ages = [], []
    for before, step in pairwise([0, *taken]):
        seen.append(random.normal(size=(4, 2)))
        ages.append(range(before + 1, step + 1))
        parameters = {"table": mx.array(seen[-1], mx.float32)}
        average = averaged(average, parameters, mx.array(newest_weight(step, CONFIG)))
        weights = np.array([sum(0.7 ** (step - each) for each in age) for age in ages])
        want = np.tensordot(weights / weights.sum(), np.stack(seen), axes=1)
        assert_matches(average["table"], want, rel=64 * ROUNDOFF, name=f"step {step}")
    assert taken[-1] > 3 * AVERAGED_EVERY


def test_after_the_first_step_the_average_is_the_parameters_and_not_their_start():
    parameters = fresh(start()).parameters
    begun = {name: -values for name, values in parameters.items()}
    got = averaged(begun, parameters, mx.array(newest_weight(1, CONFIG)))
    for name, values in parameters.items():
        assert_matches(got[name], values, rel=4 * ROUNDOFF, name=name)


def test_l2_pulls_on_the_networks_only():
    zero = {name: np.zeros_like(each) for name, each in start().items()}
    got = stepped(fresh(start()), zero, 1, 0.03)
    before = start()
    table = np.array(got.parameters["table"])
    assert (table == before["table"].astype(np.float32)).all()
    for name in ("density", "colour"):
        want = before[name] - 0.4 * 0.03 * np.sign(before[name])
        assert_matches(got.parameters[name], want, rel=16 * ROUNDOFF, name=name)


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


def test_what_went_in_is_left_as_it_was():
    now = fresh(start())
    stepped(now, gradients(1), 1, 0.03)
    for name, values in start().items():
        assert (np.array(now.parameters[name]) == values.astype(np.float32)).all()
        assert not np.array(now.first_moment[name]).any()


def test_moments_begin_at_zero_with_the_parameters_shapes():
    parameters = fresh(start()).parameters
    moments = zeros_like(parameters)
    assert {n: m.shape for n, m in moments.items()} == {n: p.shape for n, p in parameters.items()}
    assert not any(np.array(each).any() for each in moments.values())
