"""Fingers on a touch screen: one orbits, two pan and dolly, a double tap looks there."""

import math

import pytest

from tests.app.viewer.page.driver import START

HEIGHT = 480  # of the image; travel is in units of it


@pytest.fixture
def touch(open_view):
    """A view on a touch screen, and a function that moves fingers on it."""
    view = open_view(has_touch=True).live()
    view.show()
    view.forget()
    session = view.page.context.new_cdp_session(view.page)

    def send(kind, *places):
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    return view, send


def test_one_finger_orbits(touch):
    view, send = touch
    send("touchStart", (200, 200))
    send("touchMove", (230, 210))
    send("touchMove", (296, 224))
    send("touchEnd")
    assert view.has_moved(START.orbit(96 / HEIGHT, 24 / HEIGHT))


def test_two_fingers_pan_by_their_middle_and_dolly_by_their_distance(touch):
    view, send = touch
    send("touchStart", (200, 200))
    send("touchStart", (200, 200), (300, 200))
    send("touchMove", (190, 230), (390, 230))
    send("touchEnd")
    assert view.has_moved(START.pan(40 / HEIGHT, 30 / HEIGHT).dolly(-math.log(2)), tolerance=0.02)


def test_a_double_tap_looks_there(touch):
    view, send = touch
    for _ in range(2):
        send("touchStart", (320, 120))
        send("touchEnd")
    (look,) = view.sent("look")
    assert (look["x"], look["y"]) == pytest.approx((0.5, 0.25))
    assert view.sent("move") == []
