"""Colors of depth, and of additional outputs of a field."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.config.rendering import RenderOptions
from nerfmac.rendering.color_map import INFERNO, TURBO, colored, shown
from nerfmac.rendering.view_renderer import colors
from tests.app.viewer.analytic import on_map

MAPS = {"turbo": TURBO, "inferno": INFERNO}


@pytest.mark.parametrize("name", MAPS)
def test_between_anchors_colors_change_evenly(name):
    values = np.linspace(0.0, 1.0, 1001)
    got = np.array(colored(mx.array(values, mx.float32), MAPS[name]))
    assert got == pytest.approx(on_map(values, MAPS[name]), abs=1e-5)


def test_the_smooth_step_of_a_depth_keeps_its_ends_and_its_middle():
    options, opacity = RenderOptions(output="depth"), mx.ones(5)
    nearness = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    shown = colors(mx.array(4.0 - 4.0 * nearness), opacity, options, (0.0, 4.0), is_eased=True)
    eased = mx.array([0.0, 0.103515625, 0.5, 0.896484375, 1.0])  # 6 s^5 - 15 s^4 + 10 s^3
    assert np.array(shown) == pytest.approx(np.array(colored(eased, TURBO)), abs=1e-4)


def test_each_of_many_channels_has_its_color():
    values = mx.array([[0.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.5]])
    middles = (np.array([1, 0, 3]) + 0.5) / 4
    assert np.array(shown(values)) == pytest.approx(on_map(middles, TURBO), abs=1e-5)
