"""By default, the depth loss and the ground loss are used if the sparse points have a floor."""

from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.run import Run
from nerfmac.app.run.configuration import surface_losses_for_views
from nerfmac.config import Config, override
from nerfmac.geometry.tracks import Tracks
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture
def points():
    across = np.random.default_rng(6).uniform(0.2, 0.8, (300, 2))
    return np.column_stack([across, np.full(300, 0.45)])


@pytest.fixture
def tracks(points):
    number = np.arange(len(points))
    view, pixel = np.zeros(len(points), int), np.full((len(points), 2), 4.5)
    return Tracks(view, pixel, number, points, np.zeros(len(points)))


@pytest.mark.parametrize(
    ("has_tracks", "has_floor", "model", "given", "want"),
    [
        (True, True, "hash", {}, (0.02, 0.05)),
        (True, False, "hash", {}, (0.0, 0.0)),
        (False, True, "hash", {}, (0.0, 0.0)),
        (True, True, "vanilla", {}, (0.0, 0.0)),
        (True, True, "hash", {"depth": 0.0}, (0.0, 0.0)),
        (True, True, "hash", {"ground": 0.0}, (0.0, 0.0)),
        (True, True, "hash", {"depth": 0.3}, (0.3, 0.05)),
        (True, True, "hash", {"ground": 0.3}, (0.02, 0.3)),
        (True, False, "hash", {"depth": 0.1}, (0.1, 0.0)),
        (False, False, "hash", {"depth": 0.1, "ground": 0.2}, (0.1, 0.2)),
    ],
)
def test_both_losses_are_used_if_there_are_tracks_and_a_floor_unless_the_user_says(
    scene, points, tracks, has_tracks, has_floor, model, given, want
):
    placed = replace(scene, points=points if has_floor else None)
    views = replace(placed.views("train"), tracks=tracks if has_tracks else None)
    config = replace(override(Config(), train=given), model=model)
    train = surface_losses_for_views(config, views).train
    assert (train.depth, train.ground) == want


@pytest.mark.parametrize("has_floor", [True, False])
def test_a_run_stores_what_was_decided_and_says_so(scene, points, tracks, has_floor, caplog):
    caplog.set_level("INFO", "nerfmac")
    if not has_floor:
        points[:, 2] = np.random.default_rng(7).uniform(0.02, 0.98, len(points))
    placed = replace(scene, points=points, tracks=tracks._replace(points=points))
    train = Run.begin(placed, CONFIG, progress=False).config.train
    assert (train.depth, train.ground) == ((0.02, 0.05) if has_floor else (0.0, 0.0))
    assert ("have a ground plane" in caplog.text) == has_floor
