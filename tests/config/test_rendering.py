"""Options of renderings, as a user writes them."""

from typing import get_type_hints

import pytest

from nerfmac import InputError
from nerfmac.config.rendering import RenderOptions

HINTS = get_type_hints(RenderOptions, include_extras=True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("background", "auto", "auto"),
        ("background", "transparent", None),
        ("background", "black", (0.0, 0.0, 0.0)),
        ("background", "51,102,255", (0.2, 0.4, 1.0)),
        ("crop", "0,1,2,3,4,5", ((0.0, 1.0, 2.0), (3.0, 4.0, 5.0))),
        ("depth_range", "0.5,3", (0.5, 3.0)),
    ],
)
def test_a_text_has_a_value(name, text, value):
    (written,) = HINTS[name].__metadata__
    assert written.parse(text) == value
    with pytest.raises(InputError, match=f"^{name} is '1,x'; expected"):
        written.parse("1,x")
