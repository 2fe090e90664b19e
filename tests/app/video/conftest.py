"""A run of the ball, for all videos."""

import pytest

from nerfmac import Method, Run
from tests.app.video.ball import Ball
from tests.scene_factory import CONFIG


@pytest.fixture(scope="module")
def run(scene):
    return Run.begin(scene, CONFIG, method=Method(field=Ball))
