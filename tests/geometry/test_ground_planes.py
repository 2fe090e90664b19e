"""The ground plane of planted points, and color by the standard of sRGB."""

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.geometry.color import linear_to_srgb, over, srgb_to_linear
from nerfmac.geometry.ground_planes import ground_plane, nearest_distance
from nerfmac.geometry.rays import Rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")

RANDOM = np.random.default_rng(11)
UP = (0.0, 0.0, 1.0)


def room(floor: int, wall: int, strewn: int, noise: float = 0.001) -> np.ndarray:
    """Points on a tilted floor of 2 x 1, on a wall, and anywhere."""
    flat = RANDOM.uniform((-1.0, -0.5), (1.0, 0.5), (floor, 2))
    rise = 0.1 * flat[:, 0] - 0.3 + RANDOM.normal(0.0, noise, floor)
    upright = RANDOM.uniform((-1.0, -0.3), (1.0, 2.0), (wall, 2))
    behind = 0.5 + RANDOM.normal(0.0, noise, wall)
    points = [
        np.column_stack([flat, rise]),
        np.column_stack([upright[:, 0], behind, upright[:, 1]]),
        RANDOM.uniform(-3.0, 3.0, (strewn, 3)),
    ]
    return np.concatenate(points)


def test_the_ground_plane_is_level_even_if_a_wall_has_more_points():
    points = room(300, 900, 400)
    plane = ground_plane(points, np.full(len(points), 0.01), UP)
    want = np.array([-0.1, 0.0, 1.0]) / np.hypot(0.1, 1.0)
    assert abs(plane.normal @ want) > 0.9999
    on_it = np.array([[0.5, 0.2, -0.25], [-0.9, -0.4, -0.39]])
    np.testing.assert_allclose(on_it @ plane.normal, plane.offset, atol=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_a_floor_is_found_that_has_a_tenth_of_the_points(seed):
    points = room(400, 2000, 1600)
    plane = ground_plane(points, np.full(len(points), 0.01), UP, seed)
    assert plane is not None
    assert plane.offset / plane.normal[2] == pytest.approx(-0.3, abs=2e-3)


def distances(plane, origins: np.ndarray, ways: np.ndarray) -> np.ndarray:
    return np.array(plane.distance(Rays(mx.array(origins, mx.float32), mx.array(ways, mx.float32))))


def test_distances_to_the_plane_end_at_the_hull_of_its_points():
    points = room(2000, 0, 0)
    plane = ground_plane(points, np.full(len(points), 0.01), UP)
    origin = np.array([0.3, 0.1, 2.0])
    aim = np.array(
        [[0.3, 0.1], [0.9, 0.0], [-0.9, 0.0], [0.0, 0.45], [1.1, 0.0], [0.0, 0.6], [0.9, 0.6]]
    )
    aimed = np.column_stack([aim, 0.1 * aim[:, 0] - 0.3])
    away = np.linalg.norm(aimed - origin, axis=1)
    ways = (aimed - origin) / away[:, None]
    origins = np.broadcast_to(origin, ways.shape)
    distance = distances(plane, origins, ways)
    np.testing.assert_allclose(distance[:4], away[:4], rtol=2e-3)
    assert (distance[4:] == np.float32(FAR_DISTANCE)).all()
    assert (distances(plane, origins, -ways) == np.float32(FAR_DISTANCE)).all()


def test_a_far_point_may_miss_the_plane_by_more():
    points = room(400, 0, 200)
    far = np.linalg.norm(points, axis=1) > 0.7
    points[:400, 2] += np.where(far[:400], 0.03 * RANDOM.choice([-1.0, 1.0], 400), 0.0)
    tight = ground_plane(points, np.full(600, 0.002), UP)
    loose = ground_plane(points, np.where(far, 0.04, 0.002), UP)
    spread = [
        np.ptp(plane.reach.reshape(4, -1).max(axis=1)) + plane.reach.max()
        for plane in (tight, loose)
    ]
    assert spread[1] > 1.2 * spread[0]


def test_the_nearest_distance_is_the_smallest_over_all_cameras():
    points, eyes = RANDOM.normal(size=(30, 3)), RANDOM.normal(size=(4, 3))
    want = np.linalg.norm(points[:, None] - eyes, axis=2).min(axis=1)
    np.testing.assert_allclose(nearest_distance(points, eyes), want)


ROUNDOFF = 2.0**-24
# Encoded and linear, from IEC 61966-2-1's formula in extended precision.
KNOWN = [(0.0, 0.0), (0.02, 0.0015479876), (0.2, 0.0331047666), (0.5, 0.2140411405),
         (0.7353569831, 0.5), (0.9, 0.7874122893), (1.0, 1.0)]  # fmt: skip


@pytest.mark.parametrize(("encoded", "linear"), KNOWN)
def test_the_curve_has_the_standards_values(encoded, linear):
    assert srgb_to_linear(mx.array(encoded)).item() == pytest.approx(linear, abs=4e-7)
    assert linear_to_srgb(mx.array(linear)).item() == pytest.approx(encoded, abs=4e-7)


def test_encoding_and_decoding_undo_each_other():
    values = mx.array(np.linspace(0.0, 1.0, 1001), mx.float32)
    # Near black the curve's slope is 12.92, and a power's rounding counts a few times over.
    for one, other in ((srgb_to_linear, linear_to_srgb), (linear_to_srgb, srgb_to_linear)):
        error = np.abs(np.array(other(one(values)) - values))
        # The two pieces of the standard agree to one part in ten million.
        assert error.max() < 64 * ROUNDOFF


def test_every_byte_survives_the_way_to_light_and_back():
    levels = np.arange(256)
    back = np.array(linear_to_srgb(srgb_to_linear(mx.array(levels / 255, mx.float32))))
    assert (np.round(back * 255) == levels).all()


@pytest.mark.parametrize("convert", [srgb_to_linear, linear_to_srgb])
def test_a_curve_rises_without_a_jump_and_its_slope_is_finite(convert):
    values = mx.array(np.linspace(0.0, 1.0, 4001), mx.float32)
    rise = np.diff(np.array(convert(values)))
    assert rise.min() > 0
    assert rise.max() < 13 / 4000
    slope = np.array(mx.grad(lambda v: convert(v).sum())(values))
    assert np.isfinite(slope).all()
    assert slope.min() > 0


RGBA = np.array([[0.8, 0.2, 0.4, 0.25], [0.1, 0.9, 0.6, 0.5], [0.3, 0.7, 1.0, 0.9]], np.float32)
BACK = np.array([[0.1, 0.5, 1.0], [0.9, 0.0, 0.3], [0.2, 0.4, 0.6]], np.float32)


def to_light(v):
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("blend", ["srgb", "linear"])
def test_alpha_mixes_the_image_and_its_background_in_the_light_named(blend):
    rgb, alpha, back = RGBA[:, :3].astype(np.float64), RGBA[:, 3:], BACK.astype(np.float64)
    want = rgb * alpha + back * (1 - alpha)
    if blend == "linear":
        mixed = to_light(rgb) * alpha + to_light(back) * (1 - alpha)
        want = 1.055 * mixed ** (1 / 2.4) - 0.055
        assert mixed.min() > 0.0031308
    got = over(mx.array(RGBA), mx.array(BACK), blend)
    assert_matches(got, want, rel=32 * ROUNDOFF, name=blend)
    for whole, one in ((0.0, BACK), (1.0, RGBA[:, :3])):
        rgba = np.concatenate([RGBA[:, :3], np.full((3, 1), whole, np.float32)], axis=1)
        got = over(mx.array(rgba), mx.array(BACK), blend)
        assert_matches(got, one, rel=32 * ROUNDOFF, name=blend)
