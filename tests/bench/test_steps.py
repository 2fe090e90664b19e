"""The step's parts are all of the step, and what is left without kernels launches none."""

import json
import re
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.backend.metal_text import recorded
from nerfmac.bench import steps
from nerfmac.bench.ceilings import Ceilings
from nerfmac.bench.launches import launches, replayed
from nerfmac.bench.parts import Part, apart, parts, total
from nerfmac.bench.steps import Stepped, time_host, time_in_turns
from nerfmac.bench.tables import sum_lines
from nerfmac.bench.timing import Timing, measure_in_turns
from nerfmac.bench.work import Work
from nerfmac.ops.composite import composite
from nerfmac.scenes import load_scene
from nerfmac.training.trainer import Queue, Trainer
from tests.scene_factory import CONFIG, write_scene

MOST = Ceilings(1e9, 1e12, "made up")
LAUNCH = Timing(0.01, 0.01, 0.01, 5)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    choose_device("cpu")
    return load_scene(write_scene(tmp_path_factory.mktemp("scene")))


@pytest.fixture(scope="module")
def trainer(scene):
    return Trainer(CONFIG, scene.extent, scene.views("train"))


@pytest.fixture(scope="module")
def turns(scene, trainer):
    return time_in_turns(trainer, scene, trainer.init(), 0.0)


@pytest.fixture(scope="module")
def measured(trainer, turns):
    return list(parts(trainer, turns, LAUNCH, 0.0))


def test_the_parts_cover_every_kernel_that_a_step_launches(trainer, measured):
    with recorded() as seen:
        for _ in trainer.trial(trainer.init()):
            pass
    named = [part.name for part in measured]
    assert len(named) == len(set(named))
    kernels = set(named) - {"everything else", "occupancy update, 1/16", "average, 1/8"}
    assert len(kernels) == 12
    # The occupancy update's own, and one whose result nobody asks for.
    others = {"networks_density"} | {f"occupancy_{each}" for each in ("choose", "splat", "pack")}
    others.add("hash_encode_position_gradient")
    assert not kernels & others
    launched = [launch.specialisation for launch in seen.values()]
    for name in kernels | others:
        assert any(each.startswith(f"{name}_") for each in launched), name
    for each in launched:
        assert any(each.startswith(f"{name}_") for name in kernels | others), each


def test_every_part_is_counted_and_survives_json(measured):
    for part in measured:
        values = json.loads(json.dumps(part.to_json(MOST)))
        assert 0.0 < values["limit_once_ms"] <= values["limit_anew_ms"]


def test_each_turn_has_a_kernel_less(scene, trainer, monkeypatch, tmp_path):
    launched = []

    def launched_by(state):
        mx.export_to_dot(str(tmp_path / "graph"), state.arrays())
        found = re.findall(r'"nerfmac_(\w+)"', (tmp_path / "graph").read_text())
        launched.append(set(found) - set(steps.NEVER_EVALUATED))

    def measure_in_turns(clocks, *, seconds):
        assert seconds == 7.0
        clocks[0]()
        with monkeypatch.context() as during:
            during.setattr(Queue, "add", lambda _, state: launched_by(state))
            for clock in clocks[1:]:
                clock()
        return [[1.0 + number] for number, _ in enumerate(clocks)]

    monkeypatch.setattr(steps, "measure_in_turns", measure_in_turns)
    state = replace(trainer.init(), step=CONFIG.occupancy.warmup_steps)
    turns = time_in_turns(trainer, scene, state, 7.0)
    names, interval = list(turns.launched), CONFIG.occupancy.interval
    assert turns.whole.step.median == 1e3
    assert turns.shorter == [[2.0 + number] for number in range(len(names) + 1)]
    assert len(launched) == interval * len(turns.shorter)
    for gone in range(len(names)):
        for each in launched[gone * interval : (gone + 1) * interval]:
            assert each == set(names[gone:])
    assert launched[-1] == set()


def test_a_kernels_part_is_what_the_step_gets_shorter_by(trainer, turns):
    count, spent = len(turns.launched), iter(range(100, 0, -3))
    shorter = [
        [turn, turn + number, turn + 2 * number]
        for number, turn in zip(range(count + 1), spent, strict=False)
    ]
    *done, everything_else = list(parts(trainer, turns._replace(shorter=shorter), LAUNCH, 0.0))[:-2]
    assert [part.name for part in done] == list(turns.launched)
    assert [part.timing.median for part in done] == pytest.approx([2e3] * count)
    assert everything_else.name == "everything else"
    assert everything_else.timing.median == pytest.approx(1e3 * (100 - 2 * count))
    assert all(part.alone for part in done)


def test_turns_are_taken_until_the_time_is_over(monkeypatch):
    clock, calls = [0.0], []

    def lasting(seconds):
        def tell():
            calls.append(seconds)
            clock[0] += 16 * seconds
            return seconds

        return tell

    monkeypatch.setattr("nerfmac.bench.timing.time.perf_counter", lambda: clock[0])
    turns = measure_in_turns([lasting(0.5), lasting(0.25)], seconds=80.0)
    assert turns == [[0.5] * 7, [0.25] * 7]
    assert calls == [0.5, 0.25] * 8  # one to warm up
    assert measure_in_turns([lasting(0.5)], seconds=0.0) == [[0.5] * 5]


def test_a_replayed_computation_gives_what_the_launches_gave_before():
    def compute(density):
        samples, start = mx.arange(64.0).reshape(-1, 16), mx.array([0, 4], mx.int32)
        widths = mx.full((4,), 0.1)
        return composite(density, samples[:, :3], samples[:, 1], widths, start).colour

    before = launches(lambda: compute(mx.ones(4)))
    want, other = np.array(compute(mx.ones(4))), mx.full((4,), 2.0)
    with replayed([("composite", each) for each in before], ["composite"]):
        got = compute(other)
    assert (np.array(got) == want).all()
    assert (np.array(compute(other)) != want).any()


def test_the_sum_is_set_against_the_step():
    def timing(median):
        return Timing(median, median, median, 5)

    some = [Part("a", timing(3.0), Work(2, 2, 2)), Part("b", timing(6.0), Work(1, 1, 1))]
    whole = Stepped(timing(10.0), 1.0, 1.0, None)
    assert total(some) == 9.0
    assert apart(some, whole) == pytest.approx(-10.0)
    assert Part("c", timing(1.0), Work(10**6, 3 * 10**6, 10**6)).limit(MOST, cached=False) == 3.0


def test_the_host_is_timed_without_a_step_being_taken(trainer):
    state = trainer.init()
    before = {name: np.array(values) for name, values in state.arrays().items()}
    host = time_host(trainer, state, 0.0)
    assert host.calls == 5
    assert host.median > 0
    for name, values in state.arrays().items():
        np.testing.assert_array_equal(np.array(values), before[name])
    whole = Stepped(host, 1.0, 1.0, state)
    for told, given in ((True, host), (False, None)):
        assert told == any("the host" in line for line in sum_lines([], whole, host, given))


def test_training_is_timed_where_it_stands(turns):
    whole = turns.whole
    assert whole.step.calls == 5
    assert all(len(spent) == 5 for spent in turns.shorter)
    assert whole.state.step == steps.SETTLING * CONFIG.occupancy.interval_at(0)
    assert 0 < whole.samples_per_second <= CONFIG.train.slots / whole.step.low * 1e3
