"""Measured distances along rays equal the interpolated depth maps, with and without a kernel."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Lens
from nerfmac.geometry import Camera, Cameras, DepthMaps
from nerfmac.ops.sensor_depth import sensor_depth

pytestmark = pytest.mark.usefixtures("run_by")

RANDOM = np.random.default_rng(7)
SIZES = ((5, 7), (1, 1), (4, 3), (2, 9))  # height and width; view 1 has no map
IMAGES = ((50, 70), (3, 5), (37, 28), (20, 91))  # height and width of the photos
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


def cameras(*sizes: tuple[int, int]) -> Cameras:
    """Cameras with images of the `sizes` (height, width)."""
    lenses = [Lens(width, height, 9.0, 9.0, 4.0, 3.0) for height, width in sizes]
    return Cameras.stack([Camera(lens, np.eye(3, 4)) for lens in lenses])


def by_hand(given, row: np.ndarray, column: np.ndarray, view: np.ndarray) -> np.ndarray:
    """The definition in float64, one ray at a time."""
    known = []
    for own_row, own_column, index in zip(row, column, view, strict=True):
        if given[index] is None:
            known.append((1.0, 0.0))
            continue
        distance, confidence = given[index]
        y, x = (own_row + 0.5) / IMAGES[index][0], (own_column + 0.5) / IMAGES[index][1]
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


def drawn() -> tuple[np.ndarray, ...]:
    """Rows, columns, views, and indices of random pixels and of the corners of the last image."""
    view = RANDOM.integers(0, len(SIZES), RAYS, np.int32)
    height, width = np.array(IMAGES)[view].T
    row, column = (RANDOM.integers(0, side) for side in (height, width))
    view[:2] = len(SIZES) - 1
    row[:2], column[:2] = ((0, side - 1) for side in IMAGES[-1])
    first = np.cumsum([0, *(height * width for height, width in IMAGES)])[view]
    return row, column, view, first + row * np.array(IMAGES)[view, 1] + column


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_distances_are_interpolated_and_confidences_are_the_lowest(compiled):
    given, (row, column, view, index) = maps(), drawn()
    stacked, all_cameras = DepthMaps.stack(given), cameras(*IMAGES)

    def look_up(index: mx.array, view: mx.array) -> mx.array:
        return sensor_depth(stacked, all_cameras, index, view)

    run = mx.compile(look_up) if compiled else look_up
    got = np.array(run(mx.array(index, mx.int32), mx.array(view)))
    want = by_hand(given, row, column, view)
    assert (want[:, 1] == 0).sum() > 50 < (want[:, 1] > 0).sum()
    np.testing.assert_allclose(got[:, 0], want[:, 0], rtol=4e-6)
    np.testing.assert_allclose(got[:, 1], want[:, 1], atol=1e-6)


def test_a_plane_is_reproduced_between_pixels():
    """The inverse depth of a plane is linear in the image, so its interpolation has no error."""
    height, width = 6, 8
    row, column = np.mgrid[:height, :width] + 0.5
    plane = (1.0 / (0.3 + 0.05 * row / height + 0.2 * column / width)).astype(np.float32)
    sides = np.array([90, 160])
    pixel = RANDOM.integers(sides // height, sides - sides // height, (RAYS, 2))
    y, x = ((pixel + 0.5) / sides).T
    stacked = DepthMaps.stack([(plane, np.ones_like(plane))])
    index = mx.array(pixel @ [sides[1], 1], mx.int32)
    got = np.array(sensor_depth(stacked, cameras((90, 160)), index, mx.zeros(RAYS, mx.int32)))
    want = 1.0 / (0.3 + 0.05 * y + 0.2 * x)
    np.testing.assert_allclose(got[:, 0], want, rtol=2e-6)
