"""Training in a session: started, paused, watched, and saved; a slice of work at a time."""

import numpy as np
import pytest

from nerfmac import DivergedError, Goal, InputError, Run, Trainer, resume
from nerfmac.app.run import CONFIGURED, drained
from nerfmac.app.viewer import pace
from nerfmac.app.viewer.live_training import Preview
from nerfmac.app.viewer.pace import Pace
from nerfmac.config import override
from tests.app.viewer.conftest import Page
from tests.scene_factory import COARSE


def test_it_trains_and_shows_at_once_and_stops_at_the_limit(page, monkeypatch):
    every_step = dict.fromkeys(pace.SLICE, 1e-6)  # a quick machine needs few slices for 30
    monkeypatch.setattr(pace, "SLICE", every_step)
    page.open().settle().take("frame")
    page.say("set", values={"steps": 150, "share": 0.5})
    page.say("train").settle()
    assert page.session.run.state.step == 150
    assert not page.session.training.is_running
    assert page.session.training.is_resting.is_set()
    assert page.session.training.failure is None
    frames = page.take("frame")
    assert len(frames) > 3
    assert frames[-1]["still"]


def test_a_drag_during_training_halves_the_share_of_training(page, monkeypatch):
    for name in ("served", "trained"):  # as if every slice of work took as long
        record = getattr(Pace, name)
        monkeypatch.setattr(Pace, name, lambda self, _, record=record: record(self, 0.1))
    page.open().settle()
    page.say("set", values={"share": 0.8})
    page.say("train")
    step = page.session.run.state.step
    for t in range(80):
        page.turn(t=t).work()
        if t < 40:  # by then, earlier values are forgotten
            page.take("frame")
    assert len(page.take("frame")) == pytest.approx(24, abs=3)
    assert page.session.run.state.step > step
    page.say("pause").settle()


def test_watching_changes_nothing_in_what_is_trained(small_run, page):
    trainer = Trainer(small_run.model, small_run.views("train"))
    alone = list(trainer.train(small_run.state, Goal(steps=160)))[-1].state
    page.open()
    page.say("set", values={"steps": 160})
    page.say("train")
    for t in range(25):
        page.turn(t=t).work()
    page.settle()
    for name, want in alone.arrays().items():
        got = page.session.run.state.arrays()[name]
        assert np.array(got).tobytes() == np.array(want).tobytes(), name


def test_a_new_run_is_shown_before_its_images_are_read_and_prepared_before_start(scene):
    page = Page(Preview(scene, COARSE, CONFIGURED, None))
    shown = page.session.run
    page.open().work()
    assert len(page.take("frame")) == 1
    assert page.session.run is shown
    page.settle()
    assert not page.session.training.is_preparing
    assert page.session.run is not shown
    page.say("set", values={"steps": 5})
    page.say("train").settle()
    assert page.session.run.state.step == 5


def test_what_a_user_chooses_before_the_images_are_read_is_kept(scene, tmp_path):
    page = Page(Preview(scene, COARSE, CONFIGURED, tmp_path / "run"))
    page.open().work()
    page.say("set", values={"up": "-x"})
    page.say("refine", name="exposures", on=True).settle()
    assert page.session.run.config.refine.exposures
    assert page.session.run.scene.up == (-1.0, 0.0, 0.0)
    page.say("set", values={"steps": 3})
    page.say("train").settle()
    saved = Run.load(tmp_path / "run")
    assert (saved.state.step, saved.scene.up) == (3, (-1.0, 0.0, 0.0))


def test_a_run_begun_before_its_images_are_read_trains_like_any_other(scene):
    config = override(COARSE, refine={"exposures": None})
    runs = [
        Run.begin(scene, config),
        drained(Preview(scene, config, CONFIGURED, None).beginning(Goal())).run,
    ]
    for run in runs:
        resume(run, Goal(steps=20), progress=False)
    assert runs[0].config == runs[1].config
    for name, want in runs[0].state.arrays().items():
        assert np.array(runs[1].state.arrays()[name]).tobytes() == np.array(want).tobytes(), name


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("nerfmac.training.trainer.Trainer.train", DivergedError("the loss is nan at step 7")),
        ("nerfmac.app.scenes.scene.Scene.decoding", InputError("0007.png is no image")),
    ],
)
def test_training_that_fails_is_told_and_the_last_good_state_shown(
    page, monkeypatch, function, error
):
    def fail(*_args, **_options):
        raise error
        yield

    page.open().settle()
    with monkeypatch.context() as broken:
        broken.setattr(function, fail)
        page.say("train").settle()
    assert page.notice == str(error)
    assert page.session.training.failure is error
    assert page.session.training.is_resting.is_set()
    assert page.session.run.state.step == 120
    page.take("frame")
    page.turn(t=1).work()
    assert len(page.take("frame")) == 1


def test_the_curve_comes_point_by_point_and_whole_to_a_new_page(page):
    page.open()
    page.say("set", values={"steps": 200})
    page.say("train")
    for _ in range(12):
        page.work(5)
        page.kernel._told_at = 0.0  # it is time again
    page.settle()
    page.kernel._told_at = 0.0
    page.settle()
    curves = page.take("curve")
    assert len(curves) > 3
    points = [point for curve in curves for point in curve["points"]]
    steps = [point[0] for point in points]
    assert curves[0]["fresh"]
    assert not any(curve["fresh"] for curve in curves[1:])
    assert steps == sorted(set(steps))
    assert steps[-1] == 200
    page.open(page="second").settle()
    (whole,) = page.take("curve")
    assert whole["fresh"]
    assert whole["points"] == points


def test_a_run_that_grows_during_training_is_still_shown(scene):
    config = override(COARSE, grid={"log2_entries": 10}, train={"grow_at": 40})
    page = Page(Preview(scene, config, CONFIGURED, None))
    page.open().settle()
    page.say("train")
    shown = []
    for t in range(400):
        page.turn(t=t).work()
        if frames := page.take("frame"):
            shown.append((page.session.run.config.grid.log2_entries, frames[-1]["step"]))
        if page.session.run.state.step > 80:
            break
    page.say("pause").settle()
    assert page.session.training.failure is None
    grown = config.unchanged.grid.log2_entries
    assert {entries for entries, _ in shown} == {10, grown}
    assert all(step > 0 for entries, step in shown if entries == grown)
    assert page.session.run.config.grid.log2_entries == grown


def test_the_remaining_time_follows_from_the_progress_since_the_start(page, monkeypatch):
    page.open().settle()
    training = page.session.training
    page.say("set", values={"steps": 400})
    monkeypatch.setattr(  # the whole run takes 100 s
        "nerfmac.app.viewer.live_training.time.monotonic",
        lambda: 100.0 * training.goal.progress(training.run.state),
    )
    page.say("train")
    while training.run.state.step < 250:
        page.work()
    status = training.status()
    assert status["left"] == pytest.approx(100.0 * (1.0 - status["progress"]))
