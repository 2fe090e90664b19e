"""Training a finished run further does not make it worse, whichever way a user chooses."""

import shutil
from itertools import islice

import pytest

from nerfmac import Goal, Run, Trainer, load_scene, resume, train
from nerfmac.app.run import Training
from nerfmac.app.viewer import session
from nerfmac.training.clock import Clock
from tests.app.viewer.conftest import Page
from tests.scene_factory import CONFIG, nerfmac, write_scene

STEPS = 240
TICK = 0.01
"""Seconds between two readings of the clock: the number of steps must not depend on the machine."""
WORSE = 0.3
"""Maximum loss of PSNR in dB. A rate that rises and does not decay again costs much more."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run."""
    place = tmp_path_factory.mktemp("continued")
    scene = write_scene(place / "balls", train=48, test=4)
    train(load_scene(scene), CONFIG, Goal(steps=STEPS), out=place / "run", progress=False)
    return place / "run"


def on_pages(folder, begin):
    page = Page(Run.load(folder))
    page.open().settle()
    begin(page)
    page.loop._listen()
    while page.session.training.is_running and page.session.run.state.step < 6 * STEPS:
        page.work()
    return page.session.run


def without_an_end(folder):
    run = Run.load(folder)
    for _ in islice(Training(run).fit(Goal(report_interval=0.0)), STEPS):
        pass
    return run


def by_command(folder):
    copy = shutil.copytree(folder, folder.parent / "copy")
    assert nerfmac("train", "--resume", "--out", copy, "--steps", 2 * STEPS, "--no-video") == 0
    return Run.load(copy)


def cleared(page):
    """Continue, and remove the limit when the rate has risen."""
    page.say("train").work(STEPS // 4)
    page.session.set({"seconds": None})


WAYS = {
    "train --resume": by_command,
    "library without an end": without_an_end,
    "resume": lambda folder: resume(Run.load(folder), Goal(steps=2 * STEPS), progress=False),
    "viewer, Continue": lambda folder: on_pages(folder, lambda page: page.say("train")),
    "viewer, train()": lambda folder: on_pages(folder, lambda page: page.session.train(None, None)),
    "viewer, Continue without its limit": lambda folder: on_pages(folder, cleared),
    "viewer, Continue after its own limit": lambda folder: on_pages(folder, twice),
}


def twice(page):
    """Train to a limit, and press Continue when it is reached."""
    page.session.train(STEPS + 40, None)
    while page.session.training.is_running:
        page.work()
    page.settle()
    page.say("train")


@pytest.mark.parametrize("way", WAYS)
def test_a_finished_run_does_not_become_worse(finished, way, monkeypatch):
    def read(self):
        self._seconds += TICK
        return self._seconds

    used, advance = [], Trainer.advance

    def recorded(self, state, factor, train_frac):
        used.append((factor, train_frac))
        return advance(self, state, factor, train_frac)

    monkeypatch.setattr(Clock, "read", read)
    monkeypatch.setattr(session, "CONTINUED", 2 * TICK * STEPS)
    before = Run.load(finished).evaluate("test", progress=False).psnr
    monkeypatch.setattr(Trainer, "advance", recorded)
    run = WAYS[way](finished)
    assert run.state.step > STEPS + 30
    assert used[-1][1] > 0.95, "it ends with the decayed rate"
    assert run.evaluate("test", progress=False).psnr > before - WORSE


def test_continue_has_a_limit_if_the_rate_has_decayed(finished):
    def limit(run):
        page = Page(run)
        page.session.start()
        return page.session.training.goal.seconds

    run = Run.load(finished)
    seconds = run.state.train_seconds
    assert limit(run) == pytest.approx(seconds + max(session.CONTINUED, seconds))
    assert limit(Run.begin(run.images(), CONFIG, progress=False)) is None
