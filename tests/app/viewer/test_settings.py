"""Settings take what the page may say and refuse the rest."""

import json

import numpy as np
import pytest

from nerfmac.app.viewer.session import Settings
from nerfmac.common.checks import InputError


def test_the_options_have_the_colour_and_the_box():
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
        ("mode", "x-ray", "mode is 'x-ray'; expected one of: colour"),
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
        ("crop", [[0, 0, 0], [1, -1, 1]], "lowest corner first"),
        ("colour", "red", "setting is 'colour'; expected one of: background"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name, value, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        Settings().changed({name: value})
