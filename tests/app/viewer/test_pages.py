"""Several open pages of one viewer: what each has for itself, what they share, and their turns."""

import numpy as np
import pytest

from nerfmac.app.viewer import screen
from tests.app.viewer.conftest import Page


class Other(Page):
    """One more page of the viewer of another page."""

    def __init__(self, first, name):
        self.messages, self.answers, self.place, self.name = [], True, None, name
        self.session, self.loop = first.session, first.loop


@pytest.fixture
def pages(small_run):
    """A desktop and a phone, open and at rest."""
    desk = Page(small_run)
    phone = Other(desk, "phone")

    def hear(message, buffers):
        for page in (desk, phone):
            if message.get("page") in (None, page.name):
                Page.hear(page, message, buffers)

    desk.session.send = hear
    desk.open(48, 32, "desk").settle()
    phone.open(20, 40, "phone").settle()
    return desk, phone


def poses(page):
    return [np.reshape(message["pose"], (3, 4)) for message, _ in page.images()]


def test_each_page_has_its_own_size_and_view(pages):
    desk, phone = pages
    for page, shape in ((desk, (32, 48, 3)), (phone, (40, 20, 3))):
        assert page.images()[-1][1].shape == shape
        page.messages.clear()
    phone.turn(0.2, 0.1, moving=False)
    phone.say("size", width=40, height=20).settle()
    assert phone.images()[-1][1].shape == (20, 40, 3)
    assert np.allclose(poses(phone)[-1], phone.place.pose, atol=1e-6)
    assert desk.take("frame") == [], "the other page is none the wiser"
    desk.say("reset")
    desk.turn(0.1, 0.0, moving=False).settle()
    assert np.allclose(poses(desk)[-1], desk.place.pose, atol=1e-6)
    assert not np.allclose(desk.place.pose, phone.place.pose)
    assert np.allclose(poses(phone)[-1], phone.place.pose, atol=1e-6)


def test_the_content_is_a_pages_own_and_the_settings_of_the_scene_are_shared(pages):
    desk, phone = pages
    phone.say("set", values={"mode": "depth", "exposure": 1.0, "resolution": 64})
    phone.say("stand", index=2).settle()
    assert phone.take("frame")[-1]["compared"] == 2
    assert {each["compared"] for each in desk.take("frame")} == {None}
    crop = [[0.3, 0.3, 0.3], [0.7, 0.7, 0.7]]
    desk.say("set", values={"crop": crop, "steps": 500, "rate": 2.0, "background": "#102030"})
    desk.settle()
    mine, others = (page.state()["settings"] for page in pages)
    assert (mine["mode"], mine["exposure"], mine["resolution"]) == ("color", 0.0, None)
    assert (others["mode"], others["background"]) == ("depth", "#ffffff")
    for shared in (mine, others):
        assert np.allclose(shared["crop"], crop)
        assert (shared["steps"], shared["rate"]) == (500, 2.0)
    assert phone.take("frame"), "the crop box is in its image too"
    desk.session.set({"mode": "opacity"})
    assert {page.state()["settings"]["mode"] for page in pages} == {"opacity"}


@pytest.mark.parametrize("how", ["leave", "silence"])
def test_a_closed_page_costs_nothing(pages, monkeypatch, how):
    desk, phone = pages
    if how == "leave":
        phone.say("leave")
    else:
        phone.answers = False
        now = screen.time.monotonic()
        for step in range(3):
            phone.say("set", values={"exposure": 0.1 * step}).settle()
        monkeypatch.setattr(screen.time, "monotonic", lambda: now + 1.1 * screen.GONE)
        desk.say("ack", id=0)
    desk.work(2)
    assert [*desk.session.pages] == ["desk"]
    assert len(desk.session.pages) == 1
    phone.messages.clear()
    desk.say("set", values={"crop": [[0.3, 0.3, 0.3], [0.7, 0.7, 0.7]]}).settle()
    assert phone.messages == []


def test_a_page_that_was_forgotten_is_asked_to_come_back_with_its_view(pages):
    desk, phone = pages
    phone.turn(0.3, 0.1, moving=False)
    phone.say("leave")
    desk.turn(-0.2, 0.0, moving=False).settle()
    phone.messages.clear()
    phone.say("visible", is_visible=True)
    desk.settle()
    assert [message["kind"] for message, _ in phone.messages] == ["again"]
    view = {name: phone.place.to_json()[name] for name in ("pose", "center", "fov")}
    phone.say("ready", width=20, height=40, view=view)
    desk.settle()
    assert np.allclose(poses(phone)[-1], np.reshape(view["pose"], (3, 4)), atol=1e-6)
