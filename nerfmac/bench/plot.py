"""A plot of quality over seconds of training: axes, ticks, a legend and one curve a side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nerfmac.bench.compare import Comparison, Side
from nerfmac.files import appearing

SIZE = (960, 600)
BOX = (80, 60, 930, 540)
"""Left, top, right and bottom of the axes, in pixels."""

COLOURS = ((20, 90, 200), (225, 95, 20))
INK, FAINT = (40, 40, 40), (222, 222, 222)


def plot(path: Path, comparison: Comparison) -> None:
    """Write a PNG of both curves to `path`. Raises as `nerfmac.files.appearing`."""
    picture = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(picture)
    sides = comparison.nerfmac, comparison.torch
    seconds = _ticks(0.0, max(point.seconds for side in sides for point in side.curve))
    psnrs = [point.psnr for side in sides for point in side.curve]
    decibels = _ticks(min(psnrs), max(psnrs))
    left, top, right, bottom = BOX

    def place(second: float, decibel: float) -> tuple[float, float]:
        x = (second - seconds[0]) / (seconds[-1] - seconds[0])
        y = (decibel - decibels[0]) / (decibels[-1] - decibels[0])
        return left + x * (right - left), bottom - y * (bottom - top)

    for second in seconds:
        x, _ = place(second, decibels[0])
        draw.line([(x, top), (x, bottom)], FAINT)
        draw.text((x, bottom + 10), f"{second:g}", INK, _font(16), "mt")
    for decibel in decibels:
        _, y = place(seconds[0], decibel)
        draw.line([(left, y), (right, y)], FAINT)
        draw.text((left - 10, y), f"{decibel:g}", INK, _font(16), "rm")
    draw.line([(left, top), (left, bottom), (right, bottom)], INK, 2)
    draw.text(((left + right) / 2, SIZE[1] - 8), "seconds of training", INK, _font(18), "mb")
    draw.text((left, top - 14), "PSNR of test views, dB", INK, _font(18), "lb")
    about = comparison.about
    title = f"{about['scene']}, preset {about['preset']}, {about['machine']}"
    draw.text((right, top - 14), title, INK, _font(14), "rb")
    for index, (side, colour) in enumerate(zip(sides, COLOURS, strict=True)):
        _curve(draw, [place(point.seconds, point.psnr) for point in side.curve], colour)
        _legend(draw, (right - 230, bottom - 60 + 26 * index), side, colour)
    with appearing(path) as partial:
        picture.save(partial, "PNG")


def _curve(draw: ImageDraw.ImageDraw, places: list[tuple[float, float]], colour: tuple) -> None:
    draw.line(places, colour, 3, "curve")
    for x, y in places:
        draw.ellipse((x - 5, y - 5, x + 5, y + 5), colour)


def _legend(draw: ImageDraw.ImageDraw, at: tuple[float, float], side: Side, colour: tuple) -> None:
    x, y = at
    draw.line([(x, y), (x + 34, y)], colour, 3)
    draw.ellipse((x + 12, y - 5, x + 22, y + 5), colour)
    label = f"{side.name}, {side.step.median:.3g} ms a step"
    draw.text((x + 44, y), label, INK, _font(16), "lm")


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _ticks(low: float, high: float) -> list[float]:
    """Five to ten round numbers that hold [low, high] between them."""
    span = max(high - low, 1e-3)
    unit = 10.0 ** np.floor(np.log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (unit * part) <= 8)
    first, last = np.floor(low / step), max(np.ceil(high / step), np.floor(low / step) + 1)
    return [float(step * index) for index in np.arange(first, last + 1)]
