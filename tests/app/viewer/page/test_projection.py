"""Points, rays and rectangles are where the kernel's conventions put them."""

import numpy as np
import pytest

from tests.app.viewer.page.driver import LENS, POSE

PROJECTION = "image/projection"

ASKEW = [0.36, -0.48, 0.8, 1.5, 0.8, 0.6, 0.0, -0.7, -0.48, 0.64, 0.6, 2.5]


def test_a_point_lies_where_it_was_computed_by_hand(call):
    # 4 ahead, 0.5 to the right, 0.25 up: x = 0.45 + 0.75 / 8, y = 0.55 - 1 / 16
    seen = call(PROJECTION, "projectPoint", POSE, LENS, [1.0, 1.5, 2.25], 0.1)
    assert seen == pytest.approx([0.54375, 0.4875, 4.0])


@pytest.mark.parametrize("depth", [-1.0, 0.0, 0.09])
def test_a_point_behind_or_too_near_is_nowhere(call, depth):
    assert call(PROJECTION, "projectPoint", POSE, LENS, [5.0 - depth, 1.2, 2.1], 0.1) is None


def test_a_line_is_cut_where_it_passes_behind(call):
    from_ahead, to_behind = [1.0, 1.5, 2.25], [9.0, 1.5, 2.25]
    there = call(PROJECTION, "projectLine", POSE, LENS, from_ahead, to_behind, 0.5)
    back = call(PROJECTION, "projectLine", POSE, LENS, to_behind, from_ahead, 0.5)
    # at depth 0.5: x = 0.45 + 0.75 * 0.5 / 0.5, y = 0.55 - 0.25 / 0.5
    assert np.ravel(there) == pytest.approx([0.54375, 0.4875, 1.2, 0.05])
    assert np.ravel(back) == pytest.approx([1.2, 0.05, 0.54375, 0.4875])


def test_a_ray_passes_through_the_point_that_is_seen_there(call):
    point = np.array([0.3, -0.4, 0.9])
    x, y, depth = call(PROJECTION, "projectPoint", ASKEW, LENS, point.tolist(), 0.1)
    ray = call(PROJECTION, "rayThrough", ASKEW, LENS, x, y)
    reached = np.array(ray["origin"]) + depth * np.array(ray["direction"])
    assert reached == pytest.approx(point)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_an_axis_one_comes_to_where_the_ray_points(call, axis):
    start = [0.3, -0.4, 0.9]
    aim = list(start)
    aim[axis] += 0.35
    x, y, _ = call(PROJECTION, "projectPoint", ASKEW, LENS, aim, 0.1)
    ray = call(PROJECTION, "rayThrough", ASKEW, LENS, x, y)
    assert call(PROJECTION, "alongAxis", start, axis, ray) == pytest.approx(0.35)


def test_a_camera_sees_the_corners_of_its_own_image_at_its_corners(call):
    corners = call(PROJECTION, "imageCorners", ASKEW, LENS, 0.7)
    seen = [call(PROJECTION, "projectPoint", ASKEW, LENS, corner, 0.1) for corner in corners]
    assert np.array(seen) == pytest.approx(
        np.array([[0, 0, 0.7], [1, 0, 0.7], [1, 1, 0.7], [0, 1, 0.7]]), abs=1e-9
    )


@pytest.mark.parametrize(
    ("area", "image", "rectangle"),
    [
        ((900, 480), (256, 256), (210, 0, 480, 480)),
        ((300, 500), (600, 400), (0, 150, 300, 200)),
        ((901, 481), (225, 120), (0, 0, 901, 481)),  # the same aspect, in whole pixels
        ((901, 481), (1920, 1080), (22.9444, 0, 855.1111, 481)),
        ((1, 1), (1, 1), (0, 0, 1, 1)),
    ],
)
def test_a_image_is_as_large_as_its_aspect_allows_and_centered(call, area, image, rectangle):
    fitted = call(PROJECTION, "fitRectangle", *area, *image)
    assert [fitted[name] for name in ("left", "top", "width", "height")] == pytest.approx(
        list(rectangle), rel=1e-5
    )


@pytest.mark.parametrize(
    ("area", "size"),
    [
        ((640, 480), [640, 480]),
        ((0.3, 0.2), [1, 1]),
        ((7680, 2160), [3840, 1080]),
        ((3000, 4320), [1500, 2160]),
        ((0, 480), None),
    ],
)
def test_the_size_asked_for_is_within_limits_at_the_same_aspect(call, area, size):
    assert call("./stage", "deviceSize", *area) == size
