"""A run of the ball, for all films."""

import pytest

from nerfmac.run import Run
from nerfmac.training.method import Method
from tests.film.ball import Ball
from tests.scene_factory import CONFIG


@pytest.fixture(scope="module")
def run(scene):
    return Run.begin(scene, CONFIG, method=Method(field=Ball()))
