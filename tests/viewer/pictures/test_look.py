"""How a scene is shown: what is refused."""

import re

import pytest

from nerfmac.common.checks import InputError
from nerfmac.viewer.pictures.modes import MODES, Look

BAD = {
    "mode": ({"mode": "heat"}, "mode is 'heat'; expected one of: colour"),
    "background": ({"background": (0.0, 1.2, 0.0)}, "background is 1.2; expected between 0 and 1"),
    "length": ({"background": (1.0, 1.0)}, "background has 2 numbers; expected 3"),
    "exposure": ({"exposure": float("nan")}, "exposure is nan; expected a number"),
    "corners": ({"crop": ((0.0, 0.0, 0.0),)}, "crop has 1 corners; expected the lowest"),
    "corner": ({"crop": ((0.0, 0.0), (1.0, 1.0, 1.0))}, "crop's lowest corner has 2 numbers"),
    "infinite": ({"crop": ((0.0,) * 3, (1.0, float("inf"), 1.0))}, "crop's highest corner is inf"),
    "order": ({"crop": ((0.0, 0.5, 0.0), (1.0, 0.4, 1.0))}, "expected its lowest corner first"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_look_is_refused(case):
    arguments, message = BAD[case]
    with pytest.raises(InputError, match=re.escape(message)):
        Look(**arguments)


@pytest.mark.parametrize("mode", MODES)
def test_a_look_may_be_at_its_limits(mode):
    corner = (0.2, 0.3, 0.4)
    look = Look(mode, (0.0, 0.5, 1.0), -20.0, (corner, corner))
    assert look.mode == mode
    assert look.crop == (corner, corner)
