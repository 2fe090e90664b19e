"""Controls set the kernel's settings and show their values, except while a user holds them."""

import math

import pytest

from tests.app.viewer.page.driver import VIEW


def values(view):
    """The settings that have been sent, in order."""
    return [each["values"] for each in view.sent("set")]


@pytest.fixture
def panel(view):
    """The view panel, open."""
    view.button("View panel").click()
    view.page.locator(".nerfmac-panel-view .nerfmac-more summary").click()
    view.forget()
    return view


@pytest.mark.parametrize(
    ("label", "shown", "place", "name", "value"),
    [
        ("Background", "#102030", "#abcdef", "background", "#abcdef"),
        ("Exposure", "0.5", "-1.5", "exposure", -1.5),
    ],
)
def test_a_control_shows_and_sets_its_setting(panel, label, shown, place, name, value):
    assert panel.control(label).input_value() == shown
    panel.control(label).fill(place)
    assert values(panel) == [{name: value}]


def test_the_field_of_view_belongs_to_the_view_and_a_range_to_the_kernel(panel):
    slider = panel.control("Field of view")
    assert slider.input_value() == "52", "0.9 radians"
    panel.go(view={**VIEW, "fov": 0.5})
    assert slider.input_value() == "29"
    panel.forget()
    slider.fill("75")
    panel.settle()
    (move,) = panel.sent()
    assert (move["kind"], move["fov"]) == ("move", pytest.approx(math.radians(75.0)))
    assert [slider.get_attribute(end) for end in ("min", "max")] == ["10", "120"]


def test_a_value_that_the_kernel_does_not_take_is_taken_back(panel):
    slider = panel.control("Exposure")
    slider.fill("4")
    panel.state(settings={"exposure": 3.0})
    panel.page.wait_for_function(
        "document.querySelector('[aria-label=\"Exposure\"]').value === '3'"
    )


def test_every_control_has_a_name(view):
    nameless = view.run(
        """[...document.querySelectorAll("button, input, select, [tabindex]")].filter(
          (each) => !each.getAttribute("aria-label")).map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_the_view_fills_the_screen_and_comes_back(view):
    view.button("Full screen").click()
    view.page.wait_for_function("document.fullscreenElement?.className === 'nerfmac-viewer'")
    size = view.wait_for("size")
    assert [size["width"] > 640, size["height"] > 480] == [True, True]
    view.button("Full screen").click()
    view.page.wait_for_function("document.fullscreenElement === null")
