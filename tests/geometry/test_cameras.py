"""Lenses, poses, and their stacking."""

import math

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.common.constants import FRACTION_UNITS as WHOLE
from nerfmac.geometry.cameras import Camera, Cameras, nearest_to_axes, pixel_places
from nerfmac.geometry.lenses import Lens, distort, fisheye_directions, undistort
from nerfmac.geometry.rays import camera_rays

FOX = (0.0578421, -0.0805099, 0.0, 0.0, -0.000980296, 0.00015575)
DISTORTIONS = {
    "fox": FOX,
    "barrel": (-0.3, 0.1, 0.0, 0.0, 0.0, 0.0),
    "tangential": (0.2, 0.1, 0.0, 0.0, 0.01, -0.02),
    "fourth order": (0.0, 0.0, 0.0, 0.25, 0.0, 0.0),
    "all": (-0.25, 0.06, -0.005, 0.001, 0.002, -0.001),
}
PLAIN = Lens(width=40, height=30, fl_x=35.0, fl_y=33.0, cx=18.0, cy=16.5)


def sweep(half_width: float, half_height: float) -> mx.array:
    """A grid of directions (x, y, 1) up to the corners, (r, 2)."""
    x, y = np.meshgrid(np.linspace(-half_width, half_width, 23), np.linspace(-1, 1, 31))
    return mx.array(np.stack([x, half_height * y], axis=-1).reshape(-1, 2).astype(np.float32))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", DISTORTIONS)
def test_undistort_is_the_inverse_of_distort(name, compiled):
    point, distortion = sweep(0.7, 0.75), mx.array([DISTORTIONS[name]])
    bent = distort(point, distortion)
    assert float(mx.abs(bent - point).max()) > 1e-3, "nothing was bent, so nothing is undone"
    back = (mx.compile(undistort) if compiled else undistort)(bent, distortion)
    np.testing.assert_allclose(np.array(back), np.array(point), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("coefficient", "expected"),
    [  # at x = 0.5, y = -0.25, so r^2 = 0.3125, by hand from OpenCV's formulas, coefficient 0.1
        ("k1", (0.515625, -0.2578125)),
        ("k2", (0.5048828125, -0.25244140625)),
        ("k3", (0.50152587890625, -0.250762939453125)),
        ("k4", (0.5004768371582031, -0.25023841857910156)),
        ("p1", (0.475, -0.20625)),
        ("p2", (0.58125, -0.275)),
    ],
)
def test_each_coefficient_bends_as_opencv_says(coefficient, expected):
    index = ("k1", "k2", "k3", "k4", "p1", "p2").index(coefficient)
    distortion = mx.array([[0.1 if i == index else 0.0 for i in range(6)]])
    bent = distort(mx.array([[0.5, -0.25]]), distortion)
    np.testing.assert_allclose(np.array(bent), [expected], rtol=0, atol=1e-7)


def test_a_point_past_the_fold_of_a_lens_stays_finite():
    # x (1 - 0.5 x^2) never exceeds 0.545: no direction arrives at 0.9, and 1 / sqrt(1.5) is the
    # fold itself, where the Jacobian is singular.
    point = mx.array([[0.9, 0.0], [2.0, -3.0], [math.sqrt(2 / 3), 0.0], [0.0, 0.545]])
    straight = undistort(point, mx.array([[-0.5, 0.0, 0.0, 0.0, 0.0, 0.0]]))
    assert np.isfinite(np.array(straight)).all()
    assert float(mx.abs(straight).max()) < 10
    # At (1, 0) with k1 = -1 the radial factor, and with it dy'/dy, is exactly zero.
    straight = undistort(mx.array([[1.0, 0.0]]), mx.array([[-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]))
    assert np.isfinite(np.array(straight)).all()


def test_a_lens_sees_its_field_of_view_from_edge_to_edge():
    lens = Lens.from_fov(math.radians(60), 200, 100)
    assert (200 - lens.cx) / lens.fl_x == pytest.approx(math.tan(math.radians(30)))
    assert (lens.fl_y, lens.cx, lens.cy) == (lens.fl_x, 100, 50)


def test_a_lens_within_another_shape_keeps_its_image_in_the_middle():
    lens = Lens(400, 300, 350.0, 340.0, 190.0, 160.0, k1=0.1)
    assert lens.within(200, 150) == lens.scaled(200, 150)
    tall = lens.within(200, 350)  # the image is 200x150 in it, 100 rows from the top
    assert (tall.width, tall.height, tall.fl_x, tall.fl_y, tall.k1) == (200, 350, 175, 170, 0.1)
    assert (tall.cx, tall.cy) == (95, 180)
    wide = lens.within(600, 300)
    assert (wide.fl_x, wide.cx, wide.cy) == (350, 290, 160)


def test_a_scaled_lens_sees_the_same_directions():
    lens = Lens(400, 300, 350.0, 340.0, 190.0, 160.0, k1=0.1, p2=0.01)
    half = lens.scaled(200, 100)
    assert (half.width, half.height) == (200, 100)
    for x, y in [(0.0, 0.0), (400.0, 300.0), (17.0, 200.0)]:
        assert (x / 2 - half.cx) / half.fl_x == pytest.approx((x - lens.cx) / lens.fl_x)
        assert (y / 3 - half.cy) / half.fl_y == pytest.approx((y - lens.cy) / lens.fl_y)
    assert half.distortion == lens.distortion


def test_look_at_sees_the_target_ahead_and_up_above():
    eye, target, up = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.25, 0.0]), (0.0, 0.0, 5.0)
    pose = Camera.look_at(eye, target, up, PLAIN).pose
    right, above, backwards = pose[:, :3].T
    np.testing.assert_allclose(pose[:, :3].T @ pose[:, :3], np.eye(3), atol=1e-6)
    assert np.linalg.det(pose[:, :3]) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(pose[:, 3], eye)
    away = target - eye
    np.testing.assert_allclose(-backwards, away / np.linalg.norm(away), atol=1e-6)
    assert above @ up > 0
    assert abs(right @ up) < 1e-6


def views() -> list[Camera]:
    bent = Lens(40, 30, 31.0, 32.0, 19.0, 14.0, *FOX)
    return [
        Camera.look_at((1, 2, 3), (0, 0, 0), (0, 0, 1), PLAIN),
        Camera.look_at((-2, 1, 0), (0, 1, 0.5), (0, 0, 1), bent),
    ]


def test_stacked_cameras_come_back_as_they_went_in():
    given = views()
    cameras = Cameras.stack(given)
    assert (len(cameras), cameras.sizes) == (2, ((40, 30), (40, 30)))
    for got, want in zip(cameras, given, strict=True):
        np.testing.assert_array_equal(got.pose, want.pose)
        assert (got.lens.fl_x, got.lens.fl_y) == (want.lens.fl_x, want.lens.fl_y)
        assert (got.lens.cx, got.lens.cy) == (want.lens.cx, want.lens.cy)
        assert got.lens.distortion == pytest.approx(want.lens.distortion, rel=1e-6)
    np.testing.assert_array_equal(cameras[-1].pose, given[1].pose)
    assert not Cameras.stack(given[:1]).is_distorted
    for name in ("k1", "k2", "k3", "k4", "p1", "p2"):  # any one coefficient
        bent = Lens(40, 30, 31.0, 32.0, 19.0, 14.0, **{name: 1e-3})
        assert Cameras.stack([given[0], Camera(bent, given[0].pose)]).is_distorted


def test_cameras_of_several_sizes_keep_theirs():
    plain, bent = views()
    odd = Camera(PLAIN.scaled(20, 15), plain.pose)
    cameras = Cameras.stack([plain, odd, bent])
    assert [(each.lens.width, each.lens.height) for each in cameras] == [
        (40, 30),
        (20, 15),
        (40, 30),
    ]
    assert repr(cameras) == "Cameras(3 of 40x30 and 1 more, distorted)"
    assert cameras.pixels == 2700
    assert np.array(cameras.places)[:, :3].tolist() == [[0, 30, 40], [1200, 15, 20], [1500, 30, 40]]
    with pytest.raises(InputError, match="no cameras"):
        Cameras.stack([])


def test_lines_through_one_point_lead_to_it_and_parallel_ones_to_none():
    point, eyes = np.array([0.3, -0.2, 0.9]), np.array([[2.0, 0, 0], [0, 3, 1], [-1, -1, 2]])
    axes = (point - eyes) / np.linalg.norm(point - eyes, axis=1, keepdims=True)
    np.testing.assert_allclose(nearest_to_axes(eyes, axes), point, atol=1e-12)
    assert nearest_to_axes(eyes, np.repeat(axes[:1], 3, axis=0)) is None


SIZES = {
    "one": [(7, 5)],
    "equal": [(7, 5)] * 4,
    "two": [(7, 5), (5, 7), (14, 10)],
    "many": [(width, 3 + width % 5) for width in (1, 90, 3, 17, 40, 2, 2, 300, 8)],
}


@pytest.mark.parametrize("name", SIZES)
def test_the_shares_of_all_views_are_as_their_pixels(name):
    sizes = np.array(SIZES[name])
    counts = sizes.prod(axis=1)
    first, height, width, kept, other = pixel_places(SIZES[name]).T
    assert np.diff(first, append=counts.sum()).tolist() == counts.tolist()
    assert np.stack([width, height], axis=1).tolist() == sizes.tolist()
    assert ((kept >= 0) & (kept <= WHOLE)).all()
    got = kept.astype(np.float64)
    np.add.at(got, other, WHOLE - kept)
    np.testing.assert_allclose(got / WHOLE / len(sizes), counts / counts.sum(), atol=1e-6)


COEFFICIENTS = {
    "none": (0.0, 0.0, 0.0, 0.0),
    "action camera": (0.0356, 0.0071, -0.0034, 0.0005),
    "barrel": (-0.03, 0.004, 0.0, -1e-4),
}


def seen_at(angle: np.ndarray, side: np.ndarray, coefficients) -> np.ndarray:
    """Points (r, 2) of the directions at `angle` from the axis, toward `side` in the image."""
    distance = angle * (1 + sum(k * angle ** (2 * i) for i, k in enumerate(coefficients, start=1)))
    return np.stack([distance * np.cos(side), distance * np.sin(side)], axis=1)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_directions_up_to_a_right_angle_and_beyond_come_back(name):
    angle, side = np.meshgrid(np.radians([0.0, 1e-4, 5, 40, 70, 90, 97]), [0.0, 0.7, 2.5, -1.9])
    angle, side = angle.ravel(), side.ravel()
    point = mx.array(seen_at(angle, side, COEFFICIENTS[name]).astype(np.float32))
    got = np.array(fisheye_directions(point, mx.array([COEFFICIENTS[name]])))
    across = np.sin(angle)
    want = np.stack([across * np.cos(side), across * np.sin(side), np.cos(angle)], axis=1)
    np.testing.assert_allclose(got, want, atol=2e-6)


def test_points_that_no_direction_maps_to_stay_finite():
    point = mx.array([[9.0, -2.0], [1.6, 0.3], [0.0, 0.0]])
    got = np.array(fisheye_directions(point, mx.array([[-0.3, 0.0, 0.0, 0.0]])))
    assert np.isfinite(got).all()


def test_a_image_may_be_wider_than_half_a_turn():
    lens = Lens(200, 100, 60.0, 55.0, 101.0, 48.0, is_fisheye=True)  # 190 degrees wide
    direction = np.array(camera_rays(Camera(lens, np.eye(3, 4))).direction).reshape(100, 200, 3)
    assert direction[48, 199, 2] > 0.0, "behind the camera, which looks along -z"
    assert direction[48, 160, 2] < 0.0
    x, y = (160.5 - 101.0) / 60.0, (70.5 - 48.0) / 55.0
    angle = np.hypot(x, y)
    want = [np.sin(angle) * x / angle, -np.sin(angle) * y / angle, -np.cos(angle)]
    np.testing.assert_allclose(direction[70, 160], want, atol=1e-6)


def test_a_fisheye_beside_another_lens_keeps_its_kind():
    plain = Lens(20, 10, 30.0, 30.0, 10.0, 5.0)
    round_ = Lens(20, 10, 30.0, 30.0, 10.0, 5.0, 0.01, is_fisheye=True)
    cameras = Cameras.stack([Camera(each, np.eye(3, 4)) for each in (plain, round_)])
    assert (cameras.is_distorted, cameras.is_fisheye) == (True, True)
    assert [camera.lens.is_fisheye for camera in cameras] == [False, True]
    assert not Cameras.stack([Camera(plain, np.eye(3, 4))]).is_distorted
    assert round_.scaled(10, 5).is_fisheye


def test_a_reduced_lens_has_whole_blocks_of_pixels():
    lens = Lens(41, 30, 35.0, 33.0, 18.0, 16.5, k1=0.1).reduced(4)
    assert lens == Lens(10, 7, 8.75, 8.25, 4.5, 4.125, k1=0.1)


def test_the_resolution_at_the_center_is_the_median_of_the_views():
    eyes = [(0.5, 0.5, 0.5 + away) for away in (0.5, 2.0, 5.0)]
    cameras = [Camera.look_at(eye, (0.5, 0.5, 0.5), (0, 1, 0), PLAIN) for eye in eyes]
    assert Cameras.stack(cameras).pixels_per_unit() == pytest.approx(PLAIN.fl_x / 2.0)
