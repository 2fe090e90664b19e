"""Frames are drawn where they belong and acked in their order; late ones are skipped."""

import pytest

RED, BLUE, GREEN = (200, 30, 30), (30, 30, 200), (30, 160, 30)
DARK = [0x14, 0x16, 0x1A]


def color_at(view, x, y):
    return pytest.approx(view.pixel(x, y)[:3], abs=12)


def acks(view):
    view.settle()
    return [each["id"] for each in view.sent("ack")]


def test_a_frame_fills_the_image_and_one_of_another_aspect_has_dark_bars_beside_it(view):
    view.show(7)
    assert color_at(view, 20, 10) == list(RED)
    assert color_at(view, 620, 470) == list(BLUE)
    assert acks(view) == [7]
    view.show(8, width=120, height=240)
    assert [color_at(view, x, 240) == DARK for x in (150, 490)] == [True, True]
    assert color_at(view, 210, 5) == list(RED)
    assert color_at(view, 430, 475) == list(BLUE)


def test_a_frame_that_a_newer_one_follows_is_skipped_but_never_two_in_a_row(view):
    view.run("held = []")
    for number, color in enumerate((RED, GREEN, BLUE, RED)):
        view.frame(number, [color])
    view.page.wait_for_function("held.length === 4")
    seen = []
    for number in range(4):
        view.run("(number) => held[number]()", number)
        view.page.wait_for_function(
            "(number) => sent.some((each) => each.kind === 'ack' && each.id === number)", arg=number
        )
        seen.append(view.pixel(320, 240)[:3])
    colors = [DARK, list(GREEN), list(GREEN), list(RED)]
    assert seen == [pytest.approx(each, abs=12) for each in colors]
    assert acks(view) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("width", "height", "scale", "size"),
    [
        ("1px", 1, 1.0, [1, 1]),
        ("640px", 480, 2.0, [1280, 960]),
        ("3840px", 1080, 2.0, [3840, 1080]),
    ],
)
def test_the_view_tells_its_size_in_device_pixels_and_draws_in_them(
    open_view, width, height, scale, size
):
    view = open_view(width=width, height=height, scale=scale).live()
    ready = view.wait_for("ready")
    assert [ready["width"], ready["height"]] == size
    view.show(1, [GREEN], width=size[0], height=size[1])
    assert view.run("(() => { const { width, height } = document.querySelector("
                    "'canvas.nerfmac-frame'); return [width, height]; })()") == size  # fmt: skip
    assert color_at(view, size[0] - 1, size[1] - 1) == list(GREEN)


def test_a_hidden_view_says_nothing_until_it_is_seen(open_view):
    view = open_view(width="0px")
    view.settle()
    assert view.run("sent") == []
    view.run("output.style.width = '320px'")
    ready = view.wait_for("ready")
    assert [ready["width"], ready["height"]] == [320, 480]
