"""How sharp images are during training, and the limits that a user sets for them."""

from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.viewer import pace
from tests.app.viewer.conftest import Page


@pytest.fixture
def busy(small_run):
    """An open page on a run that trains."""
    page = Page(replace(small_run))
    page.open(120, 90).settle()
    page.session.train(None, 600.0)
    page.images()
    page.messages.clear()
    yield page
    page.session.training.pause()


def frames(page, count):
    for _ in range(300):
        page.work()
        sent = [message for message, _ in page.images()]
        if len(sent) >= count:
            return sent
    raise AssertionError("there are no more images")


def test_an_image_at_rest_does_not_become_coarser_during_training(busy, monkeypatch):
    monkeypatch.setattr(pace, "HAZE_STEPS", 0)
    monkeypatch.setattr(pace, "SCALES", (0.25,))
    shown, busy.screen._shown_seconds = busy.screen.shown, 0.1
    assert shown.scale == 1.0
    scales = [each["scale"] for each in frames(busy, 3)]
    assert scales == [1.0] * 3
    busy.screen._shown_seconds = 4 * pace.MAX_KEPT
    busy.messages.clear()
    assert frames(busy, 1)[0]["scale"] == pytest.approx(0.5, abs=0.01), "but not slower and slower"


def test_a_comparison_shows_full_images_during_training(busy, monkeypatch):
    monkeypatch.setattr(pace, "SCALES", (0.25,))
    busy.say("stand", index=2)
    for _ in range(300):
        busy.work()
        sent = [message for message, _ in busy.images()]
        if any(each["scale"] == 1.0 and each["compared"] == 2 for each in sent):
            break
    else:
        raise AssertionError("no full image")
    full = [each for each in sent if each["scale"] == 1.0]
    assert np.isfinite(full[-1]["psnr"])
    assert busy.session.training.is_running


def test_a_maximum_resolution_limits_the_longer_side(page):
    page.open(120, 90).settle()
    page.say("set", values={"resolution": 64})
    page.settle()
    message, pixels = page.images()[-1]
    assert (message["width"], message["height"], message["scale"]) == (64, 48, 1.0)
    assert pixels.shape == (48, 64, 3)
    page.say("set", values={"resolution": 32})
    page.settle()
    assert "resolution" in page.notice
    page.say("set", values={"resolution": None})
    page.settle()
    assert page.images()[-1][0]["width"] == 120


def test_the_up_direction_can_be_changed_and_changed_back(page):
    page.open().settle()
    session = page.session
    before, center = session.run.scene.up, session.view.center
    for name, up in (("-y", (0.0, -1.0, 0.0)), ("x", (1.0, 0.0, 0.0)), ("scene", before)):
        page.say("set", values={"up": name})
        page.settle()
        assert session.run.scene.up == pytest.approx(up)
        assert np.allclose(session.view.up, up)
        assert abs(session.view.pose[:, 0] @ np.array(up)) < 1e-6, "the horizon is level"
        assert np.allclose(session.view.center, center)
        assert np.allclose(session.scene.home.up, up)
    page.say("set", values={"up": "north"})
    page.settle()
    assert "up" in page.notice
    rolled = session.view.pose[:, 1]
    page.say("set", values={"up": "view"})
    page.settle()
    assert np.allclose(session.view.up, rolled, atol=1e-6)
