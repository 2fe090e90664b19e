"""Between two of the kernel's frames the page shows the last one as its view sees it by now."""

import io

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.export import encode_jpeg
from nerfmac.app.viewer.depth_grid import deflated_grid
from nerfmac.app.viewer.screen import relative_lens
from nerfmac.rendering.metrics import psnr
from tests.app.viewer.page.driver import START
from tests.app.viewer.page.seen import seen

WIDTH, HEIGHT, EDGE = 640, 480, 12
NO_WEBGL = """
  window.getContextBefore = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return kind === "webgl2" ? null : window.getContextBefore.call(this, kind, ...rest);
  };
  null;
"""


def frame(view, number=1, place=START, **changes):
    """Send the image of the scene from a place, with its depth, and wait until it is drawn."""
    rgb, distance = seen(place, WIDTH, HEIGHT)
    grid, depth = deflated_grid(distance, WIDTH, HEIGHT)
    told = place.to_json()
    lens = relative_lens(place.camera(WIDTH, HEIGHT).lens)
    content = {
        "kind": "frame", "id": number, "width": WIDTH, "height": HEIGHT, "pose": told["pose"],
        "lens": lens, "t": None, "still": True, "compared": None, "psnr": None, "scale": 1.0,
        "view": told, "version": 0, "mover": None, "depth": depth, **changes,
    }  # fmt: skip
    view.say(content, encode_jpeg(rgb, 95), grid)
    view.page.wait_for_function(
        "(id) => sent.some((each) => each.kind === 'ack' && each.id === id)", arg=number
    )


def shown_image(view):
    """The content of the image area, uint8 (h, w, 3)."""
    view.page.add_style_tag(content=".nerfmac-floating > :not(.nerfmac-image) { display: none }")
    area = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}
    shown = Image.open(io.BytesIO(view.page.screenshot(clip=area)))
    return within(np.asarray(shown.convert("RGB")))


def within(image):
    """An image without its edge, where the area has round corners and shows the focus."""
    return image[EDGE:-EDGE, EDGE:-EDGE]


def decibels(image, place):
    truth = within(seen(place, WIDTH, HEIGHT)[0])
    return psnr(image / np.float32(255), truth / np.float32(255))


def drag(view, travel, button="left"):
    """Drag by so many heights, and keep the button down."""
    to = 200 + HEIGHT * travel[0], 200 + HEIGHT * travel[1]
    view.drag((200, 200), to, button=button, end=False)
    view.settle()


def place_of(view):
    """The pose of the page's view."""
    pose = view.run("document.querySelector('.nerfmac-viewer').nerfmac.view.pose")
    return np.reshape(pose, (3, 4))


@pytest.fixture
def scene(view):
    """A live view that shows the scene."""
    frame(view)
    view.forget()
    yield view
    view.page.mouse.up()
    view.page.mouse.up(button="right")


@pytest.mark.parametrize(
    ("button", "travel", "least"),
    [
        ("left", (-0.02, 0.04), 24.8), ("left", (0.05, -0.03), 21.8), ("right", (0.05, 0.03), 29.3),
    ],
)  # fmt: skip
def test_a_drag_shows_nearly_what_is_seen_from_there(scene, button, travel, least, moved):
    before = shown_image(scene)
    drag(scene, travel, button)
    there = moved(START, "orbitView" if button == "left" else "panView", *travel)
    shown = decibels(shown_image(scene), there)
    assert shown > least
    assert shown > decibels(before, there) + 5.0


def test_under_a_warp_there_is_the_frame_even_after_a_change_of_size(scene):
    """A browser may show the canvas of the warp later than it resizes the canvas below."""
    drag(scene, (0.05, 0.0))
    for width in ("500px", "300px", "640px"):
        scene.run("(width) => { output.style.width = width }", width)
        scene.settle()
        assert not scene.page.locator("canvas.nerfmac-warp").is_hidden()
        assert sum(scene.pixel(int(width[:-2]) // 2, 240)[:3]) > 3 * 0x20


def test_what_comes_into_sight_has_the_colors_behind_it(view):
    """A near red square before a blue wall; the view moves so that the wall's hidden part shows."""
    distance = np.full((HEIGHT, WIDTH), 4.0, np.float32)
    rgb = np.full((HEIGHT, WIDTH, 3), (20, 40, 220), np.uint8)
    rgb[150:330, 230:410] = (220, 30, 20)
    distance[150:330, 230:410] = 1.5
    grid, depth = deflated_grid(distance, WIDTH, HEIGHT)
    told = {"depth": depth, "pose": START.to_json()["pose"], "view": START.to_json()}
    lens = relative_lens(START.camera(WIDTH, HEIGHT).lens)
    content = {"kind": "frame", "id": 1, "width": WIDTH, "height": HEIGHT, "t": None, "lens": lens}
    more = {"compared": None, "psnr": None, "scale": 1.0, "still": True, "version": 0}
    view.say({**content, **more, **told, "mover": None}, encode_jpeg(rgb, 95), grid)
    view.page.wait_for_function("sent.some((each) => each.kind === 'ack')")
    drag(view, (0.1, 0.0), button="right")
    row = shown_image(view)[240 - EDGE].astype(int)
    view.page.mouse.up(button="right")
    is_red, is_blue = row[:, 0] > row[:, 2] + 60, row[:, 2] > row[:, 0] + 60
    red = np.flatnonzero(is_red)
    shift = 0.1 * HEIGHT * START.distance / 1.5
    assert red.mean() + EDGE == pytest.approx(320 + shift, abs=8), "the near square moves most"
    assert (red.max() - red.min()) == pytest.approx(180, abs=12)
    assert (~is_red & ~is_blue).sum() <= 16, "both colors mix along its edges only"


def test_the_next_frame_takes_the_place_of_the_warped_one(scene, moved):
    drag(scene, (0.05, 0.0))
    there = moved(START, "orbitView", 0.05, 0.0)
    warped = decibels(shown_image(scene), there)
    frame(scene, 2, there)
    assert decibels(shown_image(scene), there) > max(35.0, warped + 4.0)


def test_a_frame_that_is_late_is_warped_to_where_the_view_has_gone(scene, moved):
    drag(scene, (0.075, 0.0))
    frame(scene, 2, moved(START, "orbitView", 0.05, 0.0))
    assert decibels(shown_image(scene), moved(START, "orbitView", 0.075, 0.0)) > 27.4
    assert np.allclose(place_of(scene), moved(START, "orbitView", 0.075, 0.0).pose)


def test_without_webgl_frames_are_shown_as_they_come(open_view, origin, moved):
    view = open_view()
    view.run(NO_WEBGL)
    view.open(origin)
    view.live()
    (ready,) = [each for each in view.run("sent") if each["kind"] == "ready"]
    assert ready["warps"] is False
    frame(view, depth=None)
    before = shown_image(view)
    drag(view, (0.05, 0.0))
    view.page.mouse.up()
    assert np.allclose(place_of(view), moved(START, "orbitView", 0.05, 0.0).pose)
    assert (shown_image(view) == before).all()
    frame(view, 2, moved(START, "orbitView", 0.05, 0.0), depth=None)
    assert decibels(shown_image(view), moved(START, "orbitView", 0.05, 0.0)) > 35.0
    view.run("HTMLCanvasElement.prototype.getContext = window.getContextBefore; null")


def test_under_a_warp_a_frame_is_not_drawn_a_second_time(scene):
    drag(scene, (0.05, 0.0))
    scene.run(
        """() => {
          window.drawnBelow = 0;
          const { drawImage } = CanvasRenderingContext2D.prototype;
          CanvasRenderingContext2D.prototype.drawImage = function (...given) {
            if (this.canvas.className === "nerfmac-frame") window.drawnBelow += 1;
            return drawImage.apply(this, given);
          };
        }"""
    )
    frame(scene, number=2)
    assert not scene.page.locator("canvas.nerfmac-warp").is_hidden()
    assert scene.run("drawnBelow") == 0
