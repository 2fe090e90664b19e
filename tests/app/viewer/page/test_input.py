"""Pointer, wheel, keys, and touch are accumulated to one motion that ends on release."""

import math

import numpy as np
import pytest

from tests.app.viewer.page.driver import START, VIEW

HEIGHT = 480  # of the image; travel is in units of it


def drag(view, button="left", to=(330, 260), end=True):
    """Drag from (200, 300), in steps, with a mouse button."""
    view.drag((200, 300), to, button=button, end=end)


def walked(moves):
    """Return seconds to the right, up and forward that lead from the start to the last move."""
    way = np.reshape(moves["pose"], (3, 4))[:, 3] - START.pose[:, 3]
    return START.pose[:, :3].T @ way * [1, 1, -1] / (0.6 * START.distance)


@pytest.mark.parametrize(
    ("button", "keys", "kind"),
    [("left", [], "orbit"), ("right", [], "pan"), ("left", ["Shift"], "pan")],
)
def test_a_drag_orbits_or_pans_by_all_its_travel(shown, moved, button, keys, kind):
    for key in keys:
        shown.page.keyboard.down(key)
    drag(shown, button)
    for key in keys:
        shown.page.keyboard.up(key)
    assert shown.has_moved(moved(START, f"{kind}View", 130 / HEIGHT, -40 / HEIGHT))


@pytest.mark.parametrize("how", ["pointercancel", "lostpointercapture", "blur"])
def test_whatever_takes_the_pointer_away_ends_the_motion(shown, how):
    drag(shown, end=False)
    shown.run(
        """(how) => how === "blur" ? window.dispatchEvent(new Event("blur"))
          : document.querySelector(".nerfmac-image").dispatchEvent(
            new PointerEvent(how, { pointerId: 1, bubbles: true }))""",
        how,
    )
    assert shown.moves()["moving"][-1] is False
    count = shown.moves()["count"]
    shown.page.mouse.move(500, 200, steps=3)
    shown.page.mouse.up()
    assert shown.moves()["count"] == count


def test_the_wheel_comes_closer_and_rests_after_a_while(shown, moved):
    shown.run(  # Both at once: on a busy machine, the wheel would come to rest between the two.
        """() => {
          for (const deltaY of [-120, -60])
            document.querySelector(".nerfmac-image").dispatchEvent(
              new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY }));
        }"""
    )
    shown.page.wait_for_function(
        "sent.filter((each) => each.kind === 'move').at(-1)?.moving === false"
    )
    assert shown.has_moved(moved(START, "dollyView", -180 * 0.0015))
    moves = shown.moves()
    assert moves["moving"] == [True] * (moves["count"] - 1) + [False]


@pytest.mark.parametrize(
    ("event", "dolly"),
    [
        ({"deltaY": 100, "deltaMode": 0}, 0.15),
        ({"deltaY": 3, "deltaMode": 1}, 3 * 16 * 0.0015),
        ({"deltaY": 1, "deltaMode": 2}, 400 * 0.0015),
        ({"deltaY": -2.5, "deltaMode": 0, "ctrlKey": True}, -0.025),  # a pinch on a trackpad
        ({"deltaY": 100, "deltaMode": 0, "ctrlKey": True}, 0.15),  # a wheel, with ctrl held
    ],
)
def test_every_kind_of_wheel_has_its_measure_and_scrolls_nothing(shown, moved, event, dolly):
    is_kept = shown.run(
        "(event) => document.querySelector('.nerfmac-image').dispatchEvent("
        "new WheelEvent('wheel', { bubbles: true, cancelable: true, ...event }))",
        event,
    )
    assert not is_kept
    assert shown.moves()["pose"] == pytest.approx(moved(START, "dollyView", dolly).pose.ravel())


@pytest.mark.parametrize(
    ("key", "direction"),
    [
        ("w", (0, 0, 1)), ("ArrowDown", (0, 0, -1)), ("ArrowLeft", (-1, 0, 0)), ("d", (1, 0, 0)),
        ("q", (0, -1, 0)), ("e", (0, 1, 0)),
    ],
)  # fmt: skip
def test_a_key_walks_for_as_long_as_it_is_held(shown, key, direction):
    shown.page.locator(".nerfmac-image").focus()
    start = shown.run("performance.now()")
    shown.page.keyboard.down(key)
    shown.page.wait_for_timeout(60)
    shown.settle()
    shown.page.keyboard.up(key)
    held = (shown.run("performance.now()") - start) / 1000
    moves = shown.moves()
    walk = walked(moves)
    along = float(np.dot(walk, direction))
    assert 0.05 <= along <= held
    assert math.hypot(*walk) == pytest.approx(along)
    assert moves["moving"] == [True] * (moves["count"] - 1) + [False]


def test_two_keys_walk_both_ways_and_losing_the_focus_lets_go_of_both(shown):
    shown.page.locator(".nerfmac-image").focus()
    shown.page.keyboard.down("w")
    shown.page.keyboard.down("d")
    shown.page.wait_for_timeout(50)
    shown.run("document.activeElement.blur()")
    for key in ("w", "d"):
        shown.page.keyboard.up(key)
    moves = shown.moves()
    right, _, forward = walked(moves)
    assert min(right, forward) > 0.03
    assert moves["moving"][-1] is False
    shown.forget()
    shown.page.wait_for_timeout(50)
    assert shown.sent() == []


def test_no_key_gets_past_the_viewer(shown):
    """JupyterLab would insert a cell for A and delete one for D, D."""
    shown.run("window.heard = 0; document.addEventListener('keydown', () => (heard += 1))")
    shown.page.mouse.click(200, 300)
    shown.page.keyboard.press("a")
    shown.page.keyboard.press("r")
    assert shown.run("heard") == 0
    assert "reset" in [each["kind"] for each in shown.sent()]
    assert shown.page.locator(".nerfmac-viewer[data-lm-suppress-shortcuts]").count() == 1


def test_without_a_kernel_every_key_gets_past_the_viewer(open_view):
    """Shift+Enter must run the cell."""
    view = open_view()
    view.run(
        """() => {
          window.passed = [];
          document.addEventListener("keydown", ({ key, defaultPrevented }) => {
            passed.push([key, defaultPrevented]);
          });
        }"""
    )
    view.page.locator(".nerfmac-image").focus()
    for key in ("a", "ArrowDown", "r", "Enter"):
        view.page.keyboard.press(key)
    assert view.run("passed") == [[key, False] for key in ("a", "ArrowDown", "r", "Enter")]
    assert view.page.locator("[data-lm-suppress-shortcuts]").count() == 0


@pytest.mark.parametrize(
    ("aspect", "place"), [((640, 480), (160 / 640, 120 / 480)), ((240, 480), None)]
)
def test_a_double_click_looks_at_that_place_of_the_image(shown, aspect, place):
    """An image of 240 x 480 leaves bars at its sides, where there is nothing to look at."""
    shown.show(2, width=aspect[0], height=aspect[1])
    shown.page.mouse.dblclick(160, 120)
    shown.page.wait_for_timeout(450)
    shown.page.mouse.dblclick(380, 120)
    looks = [(each["x"], each["y"]) for each in shown.sent("look")]
    inside = (380 / 640, 0.25) if place else ((380 - 200) / 240, 0.25)
    assert looks == [pytest.approx(each) for each in (place, inside) if each]
    assert shown.sent("move") == []


def test_the_page_goes_where_the_kernel_asks_and_ignores_what_is_for_another_page(shown):
    other = {**VIEW, "center": [2.0, 1.0, 2.0]}
    drag(shown, end=False)
    shown.say({"kind": "go", "view": other, "moving": False, "page": "another"})
    assert shown.sent("went") == []
    shown.say({"kind": "go", "view": other, "moving": False, "page": shown.run("page")})
    (went,) = shown.sent("went")
    assert (went["center"], went["moving"]) == (other["center"], True), "the button is down"
    shown.page.mouse.up()
    assert shown.moves()["moving"][-1] is False
    shown.go(moving=True, compared=3)
    (*_, went) = shown.sent("went")
    assert (went["moving"], went["compared"]) == (True, 3)


def test_a_page_that_the_kernel_has_forgotten_introduces_itself_with_its_view(shown):
    drag(shown)
    moves = shown.moves()
    shown.say({"kind": "again"})
    (*_, ready) = shown.sent("ready")
    assert [ready["view"][name] for name in ("pose", "center")] == [
        moves[name] for name in ("pose", "center")
    ]


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


def test_one_finger_orbits_and_two_pan_by_their_middle_and_dolly_by_their_distance(touch, moved):
    view, send = touch
    send("touchStart", (200, 200))
    send("touchMove", (230, 210))
    send("touchMove", (296, 224))
    send("touchEnd")
    turned = moved(START, "orbitView", 96 / HEIGHT, 24 / HEIGHT)
    assert view.has_moved(turned)
    send("touchStart", (200, 200))
    send("touchStart", (200, 200), (300, 200))
    send("touchMove", (190, 230), (390, 230))
    send("touchEnd")
    want = moved(turned, "panView", 40 / HEIGHT, 30 / HEIGHT)
    want = moved(want, "dollyView", -math.log(2))
    assert view.has_moved(want, tolerance=0.02)
