"""The camera that frames a scene best."""

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.paths.rig import best_framed

LENS = Lens(40, 30, 62.0, 58.0, 21.0, 14.0)


def around(degrees, distance=2.0):
    angle = np.radians(degrees)
    eye = np.array([np.cos(angle), np.sin(angle), 0.3]) * distance
    return Camera.look_at(eye, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), LENS)


@pytest.mark.parametrize("first", [0, 140, 300])
def test_of_cameras_on_one_side_it_is_in_the_middle(first):
    cameras = [around(first + degrees) for degrees in (70, 0, 60, 20, 45, 100)]
    assert best_framed(cameras, (0, 0, 1), (0, 0, 0)) == 4
    cameras[4] = cameras[2] = around(first + 50, distance=5.0)
    assert best_framed(cameras, (0, 0, 1), (0, 0, 0)) == 0
