"""Order and content of messages to a page, in single slices of work."""

import numpy as np
import pytest

from nerfmac.app.viewer import screen
from nerfmac.app.viewer.pace import MOVED, Kind, Pace
from tests.scene_factory import HEIGHT, WIDTH


def half_until_rest(_pace, kind, *_):
    return 1.0 if kind is Kind.RESTING else 0.5


def test_a_page_that_opens_is_told_everything_and_shows_what_the_run_renders(page, small_run):
    page.open(48, 32).settle()
    kinds = [message["kind"] for message, _ in page.messages]
    assert kinds[:4] == ["go", "ranges", "cameras", "state"]
    assert {message["page"] for message, _ in page.messages} == {"first"}
    assert kinds[-1] == "frame"
    (state,) = [message for message, _ in page.messages if message["kind"] == "state"]
    assert state["training"]["step"] == 120
    assert len(state["scene"]["cube"][1]) == 3
    message, rgb = page.images()[-1]
    assert message["still"]
    assert message["scale"] == 1.0
    assert rgb.shape == (32, 48, 3)
    assert rgb.std() > 5.0
    camera = page.kernel.view.camera(48, 32)
    assert np.allclose(np.reshape(message["pose"], (3, 4)), camera.pose)
    want = small_run.render(camera).color
    assert np.abs(page.screen.shown.drawn.rgb / 255.0 - want).max() < 0.5 / 255 + 1e-6
    assert np.abs(rgb / 255.0 - want).mean() < 0.04  # JPEG's loss, in an image full of noise
    assert page.kept == [page.screen.shown.jpeg], "a page without a kernel shows it"
    (cameras,) = page.take("cameras")
    assert len(cameras["cameras"]) == len(set(cameras["names"])) == 10
    assert cameras["cameras"][0]["aspect"] == pytest.approx(WIDTH / HEIGHT)


def test_moves_that_came_meanwhile_are_answered_by_one_image_of_the_newest(page):
    page.open().settle().take("frame")
    for t in range(30):
        page.turn(t=t)
    page.work()
    (frame,) = page.take("frame")
    assert frame["t"] == 29
    assert np.allclose(np.reshape(frame["pose"], (3, 4)), page.place.pose, atol=1e-6)


def test_while_a_button_is_held_nothing_is_drawn_in_full(page, monkeypatch):
    monkeypatch.setattr(Pace, "scale", half_until_rest)
    page.open().settle().take("frame")
    page.turn(t=1).work(20)
    assert [frame["still"] for frame in page.take("frame")] == [False]
    page.say("move", t=2, moving=False).settle()
    assert page.take("frame")[-1]["still"]


def test_a_page_that_does_not_answer_has_two_images_under_way_until_a_while_has_passed(
    page, monkeypatch
):
    page.answers = False
    page.open().work(3)
    for t in range(10):
        page.turn(t=t).work()
    frames = page.take("frame")
    assert len(frames) == 2
    page.say("ack", id=frames[0]["id"]).work()
    assert [frame["t"] for frame in page.take("frame")] == [9]
    page.turn(t=10)
    pause = page.loop.work()
    assert 0.0 < pause <= screen.LOST
    assert page.take("frame") == []
    later = screen.time.monotonic() + 1.01 * screen.LOST
    monkeypatch.setattr(screen.time, "monotonic", lambda: later)
    page.work()
    assert [frame["t"] for frame in page.take("frame")] == [10]


def test_a_large_image_comes_in_strips_and_a_move_comes_first(page, monkeypatch):
    monkeypatch.setattr(
        Pace, "rows", lambda _pace, drawing, _, __, left: left if drawing.kind in MOVED else 4
    )
    monkeypatch.setattr(Pace, "scale", half_until_rest)
    page.open(32, 64).work(5)
    assert [frame["still"] for frame in page.take("frame")] == [False]
    page.turn(0.1, 0.0, t=3, moving=False).work()
    assert [(frame["t"], frame["still"]) for frame in page.take("frame")] == [(3, False)]
    page.settle()
    message, rgb = page.images()[-1]
    assert message["still"]
    whole = page.screen.shown.drawn.rgb
    assert rgb.shape == whole.shape == (64, 32, 3)
    want = page.session.run.render(page.kernel.view.camera(32, 64)).color
    assert np.abs(whole / 255.0 - want).max() < 0.02  # no seam
