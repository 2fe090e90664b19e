"""Automatic settings that the views decide."""

import numpy as np
import pytest

from nerfmac.config import override
from nerfmac.refine.track_colors import DIFFERENT
from nerfmac.training import resolve as module
from nerfmac.training.resolve import SceneFacts, resolve
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")
UNKNOWN = override(CONFIG, refine={"exposures": None})


@pytest.mark.parametrize(
    ("spread", "is_refined"),
    [
        (None, False),
        ([0.5 * DIFFERENT] * 3, False),
        ([0.0, 1.5 * DIFFERENT, 0.0], True),
        ([2.0 * DIFFERENT] * 3, True),
    ],
)
def test_exposures_are_refined_if_points_have_different_colors_in_any_channel(
    scene, monkeypatch, spread, is_refined
):
    given = None if spread is None else np.array(spread)
    monkeypatch.setattr(module, "gain_spread", lambda _views: given)
    facts = SceneFacts(scene.bounds, scene.has_alpha, scene.cameras("train"), scene.points)
    views = scene.views("train", progress=False)
    assert resolve(UNKNOWN, facts, views).refine.exposures is is_refined
    for chosen in (True, False):
        fixed = override(CONFIG, refine={"exposures": chosen})
        assert resolve(fixed, facts, views).refine.exposures is chosen
    assert resolve(UNKNOWN, facts).refine.exposures is None
