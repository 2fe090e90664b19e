"""Accepted and rejected values of settings from the page."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.run import Run
from nerfmac.app.scenes import load_scene
from nerfmac.app.viewer.session import Settings
from nerfmac.common.checks import InputError
from nerfmac.geometry.bounds import Sphere
from tests.app.scenes.scene_files import write_transforms
from tests.app.viewer.conftest import Page
from tests.scene_factory import COARSE


def test_the_options_have_the_color_and_the_box():
    crop = [[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]]
    options = Settings().changed({"background": "#ff8000", "crop": crop, "exposure": -1}).options
    assert options.background == pytest.approx((1.0, 128 / 255, 0.0))
    assert options.crop == ((0.1, 0.2, 0.3), (0.7, 0.8, 0.9))
    assert options.exposure == -1


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_crop_of_any_kind_can_be_sent_as_json(kind):
    settings = Settings().changed({"crop": kind([[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]])})
    assert json.loads(json.dumps(vars(settings)))["crop"] == [[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mode", "x-ray", "mode is 'x-ray'; expected one of: color"),
        ("background", "red", "background is 'red'"),
        ("background", "#12345", "background is '#12345'"),
        ("background", None, "background is None"),
        ("exposure", 5, "exposure is 5; expected between -4 and 4"),
        ("exposure", float("nan"), "exposure is nan"),
        ("share", 1.5, "share is 1.5"),
        ("rate", 0.0, "rate is 0; expected between 0.1 and 10"),
        ("rays", 0, "rays is 0"),
        ("rays", 1.5, "rays is 1.5; expected an integer"),
        ("steps", -3, "steps is -3"),
        ("seconds", 0, "seconds is 0"),
        ("crop", [[0, 0, 0]], "crop is"),
        ("crop", [[0, 0], [1, 1]], "crop is"),
        ("crop", 3, "crop is 3; expected two corners"),
        ("crop", [[0, 0, 0], [1, -1, 1]], "lowest corner before the highest"),
        ("color", "red", "setting is 'color'; expected one of: background"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name, value, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        Settings().changed({name: value})


def test_the_background_becomes_the_mean_color_of_the_images_unless_a_user_has_chosen_one(tmp_path):
    scene = load_scene(write_transforms(tmp_path, 3), split="none")
    session, other = (Page(Run.begin(scene, COARSE, decode=False)).session for _ in range(2))
    assert session.target().options.background == (1.0, 1.0, 1.0)
    other.set(background="#102030")
    for each in (session, other):
        before = each.target()
        for _ in each.run.images().decoding("train", progress=False):
            pass
        for _ in each.run.prepare():
            pass
        assert each.run.scene.mean_color is not None
        is_known = each.target() is not before
        assert is_known == (each is session)
    assert session.target().options.background == pytest.approx(
        session.run.scene.backdrop, abs=0.005
    )
    assert other.settings.background == "#102030"
    saved = Page(session.run).session
    assert saved.target().options.background == session.target().options.background


def test_home_and_the_first_crop_box_are_around_the_subject(small_run):
    subject = Sphere((0.4, 0.6, 0.2), 0.25)
    assert small_run.scene.subject is None
    for known, box in ((subject, [[0.025, 0.225, 0.0], [0.775, 0.975, 0.575]]), (None, None)):
        page = Page(replace(small_run, scene=replace(small_run.scene, extent=1.0, subject=known)))
        assert (page.session.home.center.tolist() == list(subject.center)) == (known is subject)
        page.open().settle()
        (state, *_) = page.take("state")
        assert state["scene"]["subject"] == (box and [pytest.approx(corner) for corner in box])
