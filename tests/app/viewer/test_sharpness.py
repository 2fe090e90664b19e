"""How sharp images are during training, and the limits that a user sets for them."""

import numpy as np
import pytest


def test_a_maximum_resolution_limits_the_longer_side(page):
    page.open(120, 90).settle()
    page.say("set", values={"resolution": 64}).settle()
    message, pixels = page.images()[-1]
    assert (message["width"], message["height"], message["scale"]) == (64, 48, 1.0)
    assert pixels.shape == (48, 64, 3)
    page.say("set", values={"resolution": 32}).settle()
    assert "resolution" in page.notice
    page.say("set", values={"resolution": None}).settle()
    assert page.images()[-1][0]["width"] == 120


def test_the_up_direction_can_be_changed_and_changed_back(page):
    page.open().settle()
    session = page.session
    before, center = session.run.scene.up, session.view.center
    for name, up in (("-y", (0.0, -1.0, 0.0)), ("x", (1.0, 0.0, 0.0)), ("scene", before)):
        page.say("set", values={"up": name}).settle()
        assert session.run.scene.up == pytest.approx(up)
        assert np.allclose(session.view.up, up)
        assert abs(session.view.pose[:, 0] @ np.array(up)) < 1e-6, "the horizon is level"
        assert np.allclose(session.view.center, center)
        assert np.allclose(session.scene.home.up, up)
    page.say("set", values={"up": "north"}).settle()
    assert "up" in page.notice
    rolled = session.view.pose[:, 1]
    page.say("set", values={"up": "view"}).settle()
    assert np.allclose(session.view.up, rolled, atol=1e-6)
