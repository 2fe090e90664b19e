"""The cascades and intervals in a marching geometry agree with the rays that march."""

from math import sqrt

import numpy as np
import pytest

from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry
from tests.ops.marching import GEOMETRIES, grid, run


@pytest.mark.usefixtures("run_by")
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_no_ray_has_more_intervals_than_the_geometry_says(geometry):
    # The cube's diagonals, the longest way there is, from a corner on.
    from_corner = MarchGeometry(
        geometry.bounds, geometry.resolution, 0.0, geometry.step, geometry.cone
    )
    signs = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]])
    origins = 0.5 - 0.49999 * geometry.bounds.extent * signs
    rays = (origins, signs / sqrt(3), np.zeros(4))
    counts = run(rays, grid(from_corner, 1.1), from_corner)["wanted"]
    most = from_corner.most_intervals
    assert (counts <= most).all()
    assert (counts >= most - 4).all(), "the bound wastes room"


@pytest.mark.parametrize(
    ("extent", "cascades"), [(0.3, 1), (1.0, 1), (1.01, 2), (2.0, 2), (3.0, 3), (4.0, 3), (16.0, 5)]
)
def test_cascades_double_until_they_hold_the_scene(extent, cascades):
    geometry = MarchGeometry(Bounds(extent), 8, 0.1, 0.01, 0.0)
    assert geometry.bounds.cascades == cascades
    assert geometry.cells == cascades * 512
    assert 2 ** (cascades - 1) >= extent
