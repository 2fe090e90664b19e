"""Color maps, against NumPy's interpolation."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.rendering.color_map import INFERNO, TURBO, colored
from tests.app.viewer.analytic import on_map

MAPS = {"turbo": TURBO, "inferno": INFERNO}


@pytest.mark.parametrize("name", MAPS)
def test_between_anchors_colors_change_evenly(name):
    values = np.linspace(0.0, 1.0, 1001)
    got = np.array(colored(mx.array(values, mx.float32), MAPS[name]))
    assert got == pytest.approx(on_map(values, MAPS[name]), abs=1e-5)


def test_turbo_is_warm_at_the_upper_end_and_cold_at_the_lower():
    red, _, blue = np.array(TURBO).T
    assert (red[10:] > blue[10:] + 0.4).all()
    assert (blue[1:5] > red[1:5] + 0.3).all()
