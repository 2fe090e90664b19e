"""The depth error of a view compares rendered distances with measured distances."""

import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Evaluation, Lens, ViewQuality, Views
from nerfmac.geometry import Camera, Cameras, DepthMaps
from nerfmac.rendering.surface_metrics import depth_errors, relative_errors

pytestmark = pytest.mark.usefixtures("on_the_cpu")

WIDTH, HEIGHT = 8, 6


def views(*, scale: float = 1.0) -> Views:
    """Two views, the second of which has a map of half the size with an unknown corner."""
    lens = Lens(WIDTH, HEIGHT, 9.0, 9.0, 4.0, 3.0)
    cameras = [Camera.look_at((x, 3, 1), (0, 0, 0), (0, 0, 1), lens) for x in (1.0, 2.0)]
    distance = np.full((HEIGHT // 2, WIDTH // 2), 2.0 * scale, np.float32)
    confidence = np.ones_like(distance)
    distance[0, 0] = confidence[0, 0] = 0.0
    pixels = mx.zeros((2 * WIDTH * HEIGHT, 3), mx.uint8)
    maps = DepthMaps.stack([None, (distance, confidence)])
    return Views(pixels, Cameras.stack(cameras), ("a", "b"), depth=maps)


def test_errors_are_relative_and_unknown_pixels_do_not_count():
    depth = np.full((HEIGHT, WIDTH), 2.0, np.float32)
    depth[4:] = 3.0
    errors = np.array(relative_errors(views(), 1, mx.array(depth)))
    assert np.isnan(errors[:3, :3]).all()  # interpolation uses the unknown corner
    assert np.isnan(errors).sum() == 9
    assert np.nanmax(errors[:4]) == 0.0
    np.testing.assert_allclose(errors[4:], 0.5)
    assert depth_errors(errors)[:2] == (0.0, 0.5)
    wide = relative_errors(views(scale=4.0), 1, mx.array(depth))
    assert depth_errors(wide)[:2] == (0.75, 0.75)


def test_rows_are_compared_with_their_own_rows_of_the_map():
    given = views()
    ramp = np.linspace(1.0, 3.0, HEIGHT // 2, dtype=np.float32)
    ramp = np.repeat(ramp[:, None], WIDTH // 2, axis=1)
    given = replace(given, depth=DepthMaps.stack([None, (ramp, np.ones_like(ramp))]))
    errors = np.array(relative_errors(given, 1, mx.ones((HEIGHT, WIDTH))))
    assert len(np.unique(errors[:, 0])) == HEIGHT


def test_masked_pixels_do_not_count():
    kept = np.ones((2, HEIGHT, WIDTH), bool)
    kept[1, :, 4:] = False
    given = replace(views(), kept=mx.array(kept.ravel()))
    errors = np.array(relative_errors(given, 1, mx.full((HEIGHT, WIDTH), 2.0)))
    assert np.isnan(errors[:, 4:]).all()
    assert not np.isnan(errors[3:, :4]).any()


def test_a_view_without_known_depth_has_no_error():
    assert depth_errors(relative_errors(views(), 0, mx.ones((HEIGHT, WIDTH)))) is None
    without = replace(views(), depth=None)
    assert relative_errors(without, 1, mx.ones((HEIGHT, WIDTH))) is None


def test_the_mean_is_over_the_views_with_measured_depth():
    qualities = [
        ViewQuality("a", 20.0, 0.5),
        ViewQuality("b", 22.0, 0.5, depth_median=0.01, depth_p90=0.05),
        ViewQuality("c", 24.0, 0.5, depth_median=0.03, depth_p90=0.07),
    ]
    found = Evaluation(qualities, split="test", of=3)
    assert found.mean("depth_median") == pytest.approx(0.02)
    assert "depth error 2.00% (90th percentile 6.00%)" in repr(found)
    assert repr(found).startswith("Evaluation(3 test views: ")
    fewer = repr(Evaluation(qualities[:1], split="test", of=3))
    assert fewer.startswith("Evaluation(1 of 3 test views: ")
    assert "depth" not in fewer


def test_depth_errors_have_statistics_without_the_unknown_ones():
    planted = np.tile([0.01, 0.02, 0.03, 0.04, 0.5], 20)
    errors = depth_errors([math.nan, *planted])
    assert errors.median == pytest.approx(0.03)
    assert errors.p90 == pytest.approx(0.5)
    assert errors.number == 100
    assert errors.within_3_percent == 0.6
    assert depth_errors([math.nan]) is None
