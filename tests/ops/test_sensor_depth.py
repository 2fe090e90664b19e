"""Measured distances along rays equal the interpolated depth maps, with and without a kernel."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.geometry.depth_maps import DepthMaps
from nerfmac.ops.sensor_depth import sensor_depth

pytestmark = pytest.mark.usefixtures("run_by")

RANDOM = np.random.default_rng(7)
SIZES = ((5, 7), (1, 1), (4, 3), (2, 9))  # height and width; view 1 has no map
RAYS = 500


def maps() -> list[tuple[np.ndarray, np.ndarray] | None]:
    given: list[tuple[np.ndarray, np.ndarray] | None] = []
    for view, size in enumerate(SIZES):
        distance = RANDOM.uniform(0.5, 4.0, size).astype(np.float32)
        confidence = RANDOM.choice([0.2, 0.6, 1.0], size).astype(np.float32)
        unknown = RANDOM.uniform(size=size) < 0.2
        distance[unknown] = confidence[unknown] = 0.0
        given.append(None if view == 1 else (distance, confidence))
    return given


def by_hand(given, fractions: np.ndarray, view: np.ndarray) -> np.ndarray:
    """The definition in float64, one ray at a time."""
    known = []
    for (_, y, x), index in zip(fractions.T.astype(np.float64), view, strict=True):
        if given[index] is None:
            known.append((1.0, 0.0))
            continue
        distance, confidence = given[index]
        height, width = distance.shape
        row = min(max(y * height - 0.5, 0.0), height - 1.0)
        column = min(max(x * width - 0.5, 0.0), width - 1.0)
        corners = []
        for down in (0, 1):
            for right in (0, 1):
                share = abs(1 - down - row % 1) * abs(1 - right - column % 1)
                place = min(int(row) + down, height - 1), min(int(column) + right, width - 1)
                corners.append((share, float(distance[place]), float(confidence[place])))
        lowest = min(confidence for _, _, confidence in corners)
        inverse = sum(share / distance for share, distance, _ in corners) if lowest else 1.0
        known.append((1.0 / inverse, lowest))
    return np.array(known)


def drawn() -> tuple[np.ndarray, np.ndarray]:
    fractions = RANDOM.uniform(size=(3, RAYS)).astype(np.float32)
    fractions[1:, :2] = [[0.0, np.nextafter(np.float32(1), np.float32(0))]] * 2
    return fractions, RANDOM.integers(0, len(SIZES), RAYS, np.int32)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_distances_are_interpolated_and_confidences_are_the_lowest(compiled):
    given, (fractions, view) = maps(), drawn()
    stacked = DepthMaps.stack(given)

    def look_up(fractions: mx.array, view: mx.array) -> mx.array:
        return sensor_depth(stacked, fractions, view)

    run = mx.compile(look_up) if compiled else look_up
    got, want = np.array(run(mx.array(fractions), mx.array(view))), by_hand(given, fractions, view)
    assert (want[:, 1] == 0).sum() > 50 < (want[:, 1] > 0).sum()
    np.testing.assert_allclose(got[:, 0], want[:, 0], rtol=4e-6)
    np.testing.assert_allclose(got[:, 1], want[:, 1], atol=1e-6)


def test_a_plane_is_reproduced_between_pixels():
    """The inverse depth of a plane is linear in the image, so its interpolation has no error."""
    height, width = 6, 8
    row, column = np.mgrid[:height, :width] + 0.5
    plane = (1.0 / (0.3 + 0.05 * row / height + 0.2 * column / width)).astype(np.float32)
    fractions = RANDOM.uniform(0.5 / height, 1 - 0.5 / height, (3, RAYS)).astype(np.float32)
    stacked = DepthMaps.stack([(plane, np.ones_like(plane))])
    got = np.array(sensor_depth(stacked, mx.array(fractions), mx.zeros(RAYS, mx.int32)))
    want = 1.0 / (0.3 + 0.05 * fractions[1] + 0.2 * fractions[2])
    np.testing.assert_allclose(got[:, 0], want, rtol=2e-6)


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("fractions", {"fractions": mx.zeros((2, 5))}),
        ("view_of", {"view": mx.zeros(4, mx.int32)}),
        ("view_of", {"view": mx.zeros(5)}),
    ],
)
def test_a_wrong_shape_or_type_is_refused_by_name(name, arrays):
    given = {"fractions": mx.zeros((3, 5)), "view": mx.zeros(5, mx.int32)} | arrays
    with pytest.raises(InputError, match=f"{name} "):
        sensor_depth(DepthMaps.stack(maps()), **given)
