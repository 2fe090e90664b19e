"""Parsing of values that several commands accept: numbers, boxes, and colors."""

from __future__ import annotations

from collections.abc import Sequence

from nerfmac.common.checks import InputError
from nerfmac.rendering.crop import Box
from nerfmac.rendering.evaluation import BACKGROUNDS

Color = tuple[float, float, float]


def numbers(flag: str, text: str, count: int, expected: str) -> list[float]:
    """Parse the value `text` of the option `flag` as `count` comma-separated numbers."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise InputError(f"{flag} is {text!r}; expected {expected}")
    return values


def box(flag: str, text: str) -> Box:
    """Parse the lowest and the highest corner of a box, written as `X,Y,Z,X,Y,Z`."""
    expected = "six numbers X,Y,Z,X,Y,Z: the lowest and the highest corner"
    a, b, c, d, e, f = numbers(flag, text, 6, expected)
    return (a, b, c), (d, e, f)


def background(text: str, known: Sequence[str] = tuple(BACKGROUNDS)) -> Color:
    """Return the sRGB color in [0, 1] of a color name or of `R,G,B` with values from 0 to 255.
    Error messages list the `known` names."""
    if text in BACKGROUNDS:
        return BACKGROUNDS[text]
    expected = f"{', '.join(known)} or R,G,B such as 40,40,60"
    red, green, blue = numbers("--background", text, 3, expected)
    return red / 255.0, green / 255.0, blue / 255.0
