"""Photos next to frames; the warp's triangles cover the grid, and are few where it is flat."""

import numpy as np
import pytest

from tests.app.viewer.page.driver import LENS, POSE, jpeg

RENDERED, PHOTO = (100, 60, 60), (100, 90, 60)


def photo(view, index=1, color=PHOTO):
    content = {"kind": "photo", "index": index, "width": 64, "height": 48, "name": "train/b.png"}
    view.say(content, jpeg([color]))


@pytest.fixture
def compared(view):
    """A view from the second of three cameras."""
    cameras = [{"pose": POSE, "lens": LENS, "aspect": 4 / 3}] * 3
    view.say({"kind": "cameras", "cameras": cameras, "names": ["a", "b", "c"], "sizes": []})
    view.show(1, [RENDERED], compared=1, psnr=31.27)
    photo(view)
    view.page.locator(".nerfmac-compare").wait_for()
    view.forget()
    return view


def over(view, x, y=240):
    """The pixel of the photo layer at a position, or None where the layer is transparent."""
    red, green, blue, opacity = view.pixel(x, y, "photo")
    return (red, green, blue) if opacity else None


def near(color):
    return pytest.approx(color, abs=6)


def test_the_divider_between_frame_and_photo_follows_pointer_and_keys(compared):
    assert over(compared, 310) is None
    assert over(compared, 330) == near(PHOTO)
    assert compared.page.locator(".nerfmac-compared").inner_text() == "train/b.png · 31.3 dB"
    compared.drag((322, 200), (160, 210))
    assert over(compared, 155) is None
    assert over(compared, 165) == near(PHOTO)
    assert compared.sent() == []
    compared.control("Divider").focus()
    for _ in range(5):
        compared.page.keyboard.press("ArrowRight")
    assert compared.control("Divider").get_attribute("aria-valuenow") == "35"
    assert over(compared, 200) is None


def test_measured_depth_is_not_called_a_photo(compared):
    size = {"index": 1, "width": 64, "height": 48, "name": "train/b.png"}
    compared.say({"kind": "photo", **size, "content": "measured depth"}, jpeg([PHOTO]))
    compared.button("The measured depth alone").wait_for()
    assert compared.button("The measured depth alone").inner_text() == "Measured depth"
    assert "photo" not in compared.page.locator(".nerfmac-compare .nerfmac-choice").inner_text()


def test_each_mode_shows_what_it_says_all_over(compared):
    for mode, color in (
        ("The rendered image alone", None),
        ("The photo alone", PHOTO),
        ("The difference of both, four times as strong", (0, 120, 0)),
    ):
        compared.button(mode).click()
        seen = [over(compared, x) for x in (5, 330, 634)]
        assert seen == [None if color is None else near(color)] * 3


COLUMNS, ROWS = 46, 31


def stepped(rng):
    """Codes of a slanted wall, empty space next to it, and a near disc with a rough surface."""
    y, x = np.mgrid[:ROWS, :COLUMNS]
    values = 9000.0 + 80.0 * x + 50.0 * y
    values[:, 33:] = 0.0
    is_disc = np.hypot(x - 17, y - 14) < 8
    return np.where(is_disc, 40000.0 + rng.uniform(0, 9000, x.shape), values).round()


@pytest.fixture
def triangles_of(call):
    """Return a function that gives the triangles (n, 3) over `values` (rows, columns)."""

    def triangles(values):
        codes = [int(value) for value in values.ravel()]
        indices = call("image/triangles", "trianglesOf", codes, *values.shape[::-1])
        return np.reshape([*indices.values()] if isinstance(indices, dict) else indices, (-1, 3))

    return triangles


@pytest.fixture
def triangles(triangles_of):
    return triangles_of(stepped(np.random.default_rng(5)))


def test_triangles_face_one_way_and_cover_the_grid_once(triangles):
    x, y = triangles % COLUMNS, triangles // COLUMNS
    (ax, bx, cx), (ay, by, cy) = x.T, y.T
    twice = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    assert (twice >= 0).all()
    assert twice.sum() == 2 * (COLUMNS - 1) * (ROWS - 1)
