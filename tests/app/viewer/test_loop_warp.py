"""Pages that move by themselves: which view is used, and the images for a page that warps."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.viewer import loop as loop_module, screen as screen_module
from nerfmac.app.viewer.screen_image import MIN_MESSAGE


def frames(page):
    """The frames so far, as (message, buffers), and drop all other messages."""
    sent = [each for each in page.messages if each[0]["kind"] == "frame"]
    page.messages.clear()
    return sent


def test_a_page_that_warps_gets_the_depth_of_what_it_sees(page):
    page.open(48, 32, warps=True).settle()
    message, (jpeg, deflated, padding) = frames(page)[-1]
    assert len(jpeg) + len(deflated) + len(padding) == MIN_MESSAGE
    form, drawn = message["depth"], page.session.screen.shown.drawn
    codes = np.frombuffer(zlib.decompress(deflated), "<u2").reshape(form["rows"], form["columns"])
    assert (codes == 0).any()
    assert ((drawn.depth > 0.0) & ~drawn.is_surface).any(), "haze counts as background"
    nearest = np.where(drawn.is_surface, drawn.depth, np.inf).min()
    assert form["largest"] == pytest.approx(1.0 / nearest, rel=1e-3)


def test_a_frame_tells_the_view_and_who_moved_there(page):
    page.open().settle()
    assert frames(page)[-1][0]["mover"] is None
    page.turn(0.1, 0.05, moving=False)
    page.settle()
    message, _ = frames(page)[-1]
    assert message["mover"] == "first"
    assert message["version"] == 0
    want = page.session.home.orbit(0.1, 0.05)
    assert message["view"] == want.to_json()
    assert np.allclose(np.reshape(message["pose"], (3, 4)), want.pose, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("reset", {}), ("set", {"values": {"fov": 30.0}}), ("stand", {"index": 1}),
     ("look", {"x": 0.5, "y": 0.5})],
)  # fmt: skip
def test_what_the_kernel_changes_wins_over_moves_that_were_under_way(page, kind, more):
    page.open().settle()
    page.turn(0.2, 0.1)
    page.say(kind, **more)
    late = page.place.orbit(0.1, 0.0).to_json()
    page.say("move", page="first", pose=late["pose"], center=late["center"], version=0)
    page.settle()
    message, _ = frames(page)[-1]
    assert message["version"] == 1
    assert message["mover"] is None
    assert not np.allclose(message["view"]["pose"], late["pose"])
    page.turn(0.05, 0.0)
    page.settle()
    assert np.allclose(frames(page)[-1][0]["view"]["pose"], page.place.to_json()["pose"])


def test_a_move_without_a_place_only_tells_whether_more_follow(page):
    page.open().settle()
    before = page.session.view
    page.say("move", moving=True)
    page.work()
    assert page.session.moving_until > 0.0
    page.say("move", moving=False)
    page.settle()
    assert page.session.moving_until == 0.0
    assert page.session.view is before


@pytest.mark.parametrize(("seconds", "share", "longest"), [(0.15, 0.1, 2.0), (3.0, 1.0, 2.0)])
def test_an_untouched_page_gets_images_in_a_tenth_of_the_time_and_every_two_seconds(
    page, monkeypatch, seconds, share, longest
):
    """The clock advances by 0.1 s per slice of training, and by `seconds` per image."""
    clock, drawn = [100.0], []
    for module in (screen_module, loop_module):
        monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])

    def train(_seconds):
        clock[0] += 0.1

    def draw(*_args, **_options):
        drawn.append(clock[0])
        clock[0] += seconds
        return page.session.screen.shown

    training, screen = page.session.training, page.session.screen
    page.open(warps=True).settle()
    page.say("train")
    page.work()
    page.session.run.state = replace(page.session.run.state, train_seconds=60.0)
    monkeypatch.setattr(training, "work", train)
    monkeypatch.setattr(screen, "draw", draw)
    monkeypatch.setattr(screen, "wants", lambda *_, **__: True)
    clock[0] += loop_module.TOUCH + 1.0
    begin = clock[0]
    page.work(2000)
    assert 0 < seconds * len(drawn) <= share * (clock[0] - begin)
    assert max(np.diff(drawn)) <= seconds + longest
    page.say("set", values={"exposure": 0.0})
    begin, count = clock[0], len(drawn)
    page.work(40)
    assert seconds * (len(drawn) - count) > 0.25 * (clock[0] - begin), "someone is there again"


def test_a_page_that_is_not_on_screen_gets_no_images_during_training(page):
    page.open(warps=True).settle()
    page.say("visible", page="first", is_visible=False)
    page.say("train")
    page.take("frame")
    page.work(60)
    assert page.session.run.state.step > 120
    assert page.take("frame") == []
    page.say("visible", page="first", is_visible=True)
    page.work(10)
    assert page.take("frame")
    page.say("pause")
    page.settle()


@pytest.mark.parametrize("kind", ["train", "pause"])
def test_an_image_in_progress_is_dropped_when_training_starts_and_when_it_pauses(page, kind):
    page.open(48, 64).settle()
    session = page.session
    if kind == "pause":
        session.start()
    session.screen._job = object()  # partly drawn
    page.say(kind)
    page.loop._take(page.loop._messages.popleft())
    assert session.training.is_running == (kind == "train")
    assert not session.screen.is_drawing
    session.pause()
