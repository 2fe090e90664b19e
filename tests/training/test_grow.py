"""Runs that begin with a smaller table and fewer samples in a step."""

import logging

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import InputError
from nerfmac.app.run import Run, Training
from nerfmac.app.run.start import beginning, drained
from nerfmac.config import AUTO, PRESETS, Config, override
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry import Bounds
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.training.goal import Goal
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.resolve import GROW_AT, for_pace
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")
SMALLER = {"grid": {"log2_entries": 9}, "march": {"max_samples": 2**11}}
AT = 4  # step after which the runs of these tests grow
GROWING = override(CONFIG, **SMALLER, train={"grow_at": AT})
OPEN = override(PRESETS["base"], preset=AUTO)


def sizes(config):
    return config.march.max_samples, config.grid.log2_entries, config.optimizer.average


@pytest.mark.parametrize(("small", "large"), [(6, 8), (9, 12), (9, 15), (12, 13), (10, 10)])
def test_a_larger_table_has_the_same_features(small, large):
    levels = [HashLevels(6, entries, 3, 1.7) for entries in (small, large)]
    became_dense = [a.is_hashed(4) and not b.is_hashed(4) for a, b in [levels]]
    table = mx.random.normal((levels[0].entries, 2), key=mx.random.key(small))
    # In the last half cell, a dense level wraps around, and a hashed level does not.
    position = mx.random.uniform(0.0, 0.9, (500, 3), key=mx.random.key(large))
    before = hash_encode(position, table, levels[0])
    after = hash_encode(position, table[levels[1].rows_in(levels[0])], levels[1])
    assert mx.array_equal(before, after)
    assert became_dense == [(small, large) == (9, 15)]


@pytest.fixture
def training(scene):
    return Training(Run.begin(scene, GROWING, progress=False))


def test_a_run_grows_once_and_its_image_does_not_change(scene, training):
    run, camera = training.run, scene.splits["test"][0].camera
    steps = training.fit(Goal(report_interval=1e-9))
    while run.state.step < AT - 1:  # between two updates of the sampler
        report = next(steps)
    assert report.state.step == run.state.step
    before, step = run.render(camera), run.state.step
    assert sizes(run.config)[1] == SMALLER["grid"]["log2_entries"]
    run.grow()
    assert sizes(run.config) == sizes(run.config.unchanged)
    assert run.config.train.grow_at == 0
    after = run.render(camera)
    np.testing.assert_allclose(before.color, after.color, atol=2e-6)  # other batches
    assert (run.state.step, run.state.next_update, run.config.seed) == (step, step, GROWING.seed)
    assert run.state.rays > report.state.rays
    assert {name: values.shape for name, values in run.state.arrays().items()} == run.model.shapes


def test_training_grows_by_itself_and_a_saved_run_is_the_same(scene, tmp_path, training):
    training.train(Goal(steps=4 * AT), progress=False)
    whole = training.run
    assert whole.state.step == 4 * AT
    assert sizes(whole.config) == sizes(whole.config.unchanged)

    for stop in (1, AT, 2 * AT):
        folder = tmp_path / f"stopped at {stop}"
        part = Training.begin(Run.begin(scene, GROWING, progress=False), folder)
        for report in part.fit(Goal(steps=4 * AT)):
            if report.state.step >= stop:
                break
        loaded = Training.resume(folder, scene)
        assert loaded.run.config.train.grow_at == (AT if loaded.run.state.step <= AT else 0)
        loaded.train(Goal(steps=4 * AT), progress=False)
        assert sizes(loaded.run.config) == sizes(whole.config)
        table = whole.state.parameters["table"]
        assert mx.array_equal(loaded.run.state.parameters["table"], table), stop


def test_a_run_that_diverges_after_it_has_grown_can_be_saved(tmp_path, training, monkeypatch):
    run = training.run

    def bad(self):
        grow(self)
        table = mx.full(self.state.parameters["table"].shape, float("nan"))
        self.state.parameters["table"] = table

    grow = Run.grow
    monkeypatch.setattr(Run, "grow", bad)
    with pytest.raises((DivergedError, InputError)):
        training.train(Goal(steps=20 * AT), progress=False)
    assert {name: values.shape for name, values in run.state.arrays().items()} == run.model.shapes


def test_a_run_without_a_limit_begins_small():
    open_ended, limited = for_pace(OPEN, None), for_pace(OPEN)
    assert open_ended.train.grow_at == GROW_AT
    assert limited.train.grow_at == 0
    assert sizes(open_ended)[:2] < sizes(limited)[:2] == sizes(PRESETS["base"])[:2]
    assert override(open_ended, train={"grow_at": 0}) == for_pace(OPEN, 1000)
    assert for_pace(PRESETS["base"], None) == PRESETS["base"]


@pytest.mark.parametrize(
    "own",
    [{"march": {"max_samples": 2**12}}, {"grid": {"log2_entries": 18}}, {"encoding": "dense"}],
)
def test_sizes_that_a_user_has_chosen_never_change(own):
    chosen = override(OPEN, **own)
    assert for_pace(chosen, None) == override(chosen, preset="base")


def test_only_a_run_without_a_limit_grows(scene, caplog):
    tiny = override(OPEN, occupancy={"resolution": 16}, grid={"levels": 4, "features": 4})
    caplog.set_level(logging.INFO, "nerfmac")

    def begun(goal, **options):
        return drained(beginning(scene, tiny, goal, progress=False, **options)).config

    assert begun(Goal()).train.grow_at == GROW_AT
    assert any("override with --preset base" in line for line in caplog.messages)
    assert begun(Goal(steps=3)).train.grow_at == 0
    own = Method(field=lambda config, bounds: _field(config, bounds))
    assert begun(Goal(), method=own).train.grow_at == 0


def _field(config, bounds: Bounds):
    from nerfmac import EncodedField

    return EncodedField(HashGrid(config.grid, bounds), config.networks)


def test_growth_of_dense_grids_is_refused():
    with pytest.raises(InputError, match="requires the encoding hash"):
        Config(encoding="dense", train=override(Config(), train={"grow_at": 5}).train)
