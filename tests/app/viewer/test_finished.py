"""At the end of training, the viewer measures held-out views once and names their quality."""

from dataclasses import replace

import pytest

from nerfmac.app.run.headline import HeldOut


def train(page, steps):
    page.session.train(page.session.run.state.step + steps, None)
    while page.session.training.is_running:
        page.work()


def test_held_out_views_are_measured_once_when_training_has_finished(page):
    page.open().settle()
    assert not page.state()["training"]["has_finished"]
    train(page, 3)
    assert page.state()["training"]["has_finished"]
    assert page.session.jobs.is_waiting
    measured = []
    while page.session.jobs.is_waiting:
        page.work()
        measured.append(page.state()["measured"])
    assert [each for each in measured if each], "the pages see the progress"
    found = page.state()["held_out"]
    want = page.session.run.evaluate("test", progress=False)
    assert found["psnr"] == pytest.approx(want.psnr, abs=1e-3)
    assert (found["step"], found["of"]) == (page.session.run.state.step, len(want))
    page.settle()
    assert page.session.jobs.held_out.step == found["step"]
    assert not page.session.jobs.is_waiting


def test_a_pause_is_not_the_end_and_a_new_start_forgets_it(page):
    page.open().settle()
    page.session.train(None, None)
    page.work(2)
    page.say("pause").settle()
    assert not page.state()["training"]["has_finished"]
    assert page.session.jobs.held_out is None
    train(page, 2)
    page.session.train(None, None)
    assert not page.state()["training"]["has_finished"]


def test_a_scene_without_held_out_views_ends_without_an_error(page):
    page.open().settle()
    scene = page.session.run.images()
    page.session.run.source = replace(scene, splits={"train": scene.splits["train"]})
    train(page, 2)
    page.settle()
    assert (page.notice, page.state()["held_out"]) == (None, None)
    assert page.state()["training"]["has_finished"]


@pytest.mark.parametrize(
    ("psnr", "word"),
    [(30.0, "very good"), (29.9, "good"), (25.0, "good"), (20.0, "fair"), (19.9, "poor")],
)
def test_a_word_names_the_quality_of_new_views(psnr, word):
    assert HeldOut(psnr, 1, 1, 1).word == word
