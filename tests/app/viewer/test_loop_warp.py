"""Who moves the camera, and the images for a page that warps."""

import zlib

import numpy as np
import pytest

from nerfmac.app.viewer.screen import MIN_MESSAGE


def frames(page):
    """The frames so far, as (message, buffers), and drop all other messages."""
    sent = [each for each in page.messages if each[0]["kind"] == "frame"]
    page.messages.clear()
    return sent


def test_a_page_that_warps_gets_the_depth_of_what_it_sees(page):
    page.open(48, 32, warps=True).settle()
    message, (jpeg, deflated, padding) = frames(page)[-1]
    assert len(jpeg) + len(deflated) + len(padding) == MIN_MESSAGE
    form, drawn = message["depth"], page.screen.shown.drawn
    codes = np.frombuffer(zlib.decompress(deflated), "<u2").reshape(form["rows"], form["columns"])
    assert (codes == 0).any()
    assert ((drawn.depth > 0.0) & ~drawn.is_surface).any(), "haze counts as background"
    nearest = np.where(drawn.is_surface, drawn.depth, np.inf).min()
    assert form["largest"] == pytest.approx(1.0 / nearest, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("reset", {}), ("set", {"values": {"fov": 30.0}}), ("stand", {"index": 1}),
     ("look", {"x": 0.5, "y": 0.5})],
)  # fmt: skip
def test_the_page_answers_to_where_the_kernel_asks_it_to_go_and_has_the_last_word(page, kind, more):
    page.open().settle()
    page.turn(0.2, 0.1, moving=False).settle()
    turned = page.place.to_json()
    page.say(kind, **more).settle()
    assert page.place.to_json() == page.kernel.view.to_json() != turned
    page.turn(0.05, 0.0, moving=False).settle()
    assert page.place.to_json() == page.kernel.view.to_json()
    assert np.allclose(np.reshape(frames(page)[-1][0]["pose"], (3, 4)), page.place.pose, atol=1e-6)


def test_a_page_that_is_not_on_screen_gets_no_images_during_training(page):
    page.open(warps=True).settle()
    page.say("visible", is_visible=False)
    page.say("train")
    page.take("frame")
    page.work(60)
    assert page.session.run.state.step > 120
    assert page.take("frame") == []
    page.say("visible", is_visible=True).work(10)
    assert page.take("frame")
    page.say("pause").settle()
