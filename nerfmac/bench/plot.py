"""A plot of PSNR over seconds of training: any number of named curves, with marks on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nerfmac.checks import InputError
from nerfmac.files import appearing

SIZE = (960, 600)
BOX = (80, 70, 930, 535)
"""Left, top, right and bottom of the axes, in pixels."""

OVERSAMPLING = 2
"""Everything is drawn so many times as large, then reduced: Pillow's lines have jagged edges."""

COLOURS = ((20, 90, 200), (225, 95, 20), (20, 140, 80), (150, 60, 170), (190, 150, 0), (90, 90, 90))
"""Of the curves, in order; a seventh curve has the first one's again."""

INK, FAINT = (40, 40, 40), (222, 222, 222)

Place = tuple[float, float]


class Mark(NamedTuple):
    """A labelled ring on a curve."""

    seconds: float
    label: str


@dataclass(frozen=True)
class Curve:
    """One curve, and its name in the legend."""

    name: str
    points: Sequence[tuple[float, float]]  # (seconds of training, PSNR in dB), in order of time
    marks: Sequence[Mark] = ()  # those outside the curve's time are not drawn


class Axis(NamedTuple):
    """An axis: where its labels stand, and its two ends, the first and the last of them."""

    ticks: list[float]
    is_log: bool

    def place(self, value: float) -> float:
        """Where `value` lies between the ends: 0 at the first, 1 at the last."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_log:
            low, high, value = log10(low), log10(high), log10(value)
        return (value - low) / (high - low)


def plot_quality(
    path: str | Path,
    curves: Sequence[Curve],
    *,
    title: str = "",
    note: str = "",
    log_time: bool = False,
) -> None:
    """Write a PNG of `curves` to `path`.

    Args:
        path: of the file; it appears whole or not at all.
        curves: at least one, with at least a point each.
        title: above the axes.
        note: under the title, in smaller letters: what the marks are, say.
        log_time: whether the axis of time is logarithmic.

    Raises:
        InputError: there is nothing to draw, a number is not finite, a time on a logarithmic
            axis is not positive, or the file cannot be written.
    """
    _check(curves, log_time)
    seconds = [second for curve in curves for second, _ in curve.points]
    psnrs = [decibel for curve in curves for _, decibel in curve.points]
    times = log_axis(min(seconds), max(seconds)) if log_time else linear_axis(0.0, max(seconds))
    decibels = linear_axis(min(psnrs), max(psnrs))
    pen = _Pen()
    left, top, right, bottom = BOX

    def place(second: float, decibel: float) -> Place:
        x, y = times.place(second), decibels.place(decibel)
        return left + x * (right - left), bottom - y * (bottom - top)

    _draw_axes(pen, times, decibels, place)
    pen.text((left, 14), title, 18, "lt")
    pen.text((right, 16), note, 14, "rt")
    for index, curve in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        places = [place(*point) for point in curve.points]
        pen.curve(places, colour)
        for mark in curve.marks:
            if curve.points[0][0] <= mark.seconds <= curve.points[-1][0]:
                x, _ = place(mark.seconds, psnrs[0])
                y = np.interp(x, [x for x, _ in places], [y for _, y in places])
                pen.ring((x, float(y)), mark.label, colour)
    _draw_legend(pen, curves)
    with appearing(Path(path)) as partial:
        pen.picture().save(partial, "PNG")


def linear_axis(low: float, high: float) -> Axis:
    """An axis with about five to ten round labels, which holds [low, high]."""
    span = max(high - low, 1e-3)
    unit = 10.0 ** floor(log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (unit * part) <= 8)
    first = floor(low / step)
    last = max(ceil(high / step), first + 1)
    return Axis([step * index for index in range(first, last + 1)], is_log=False)


def log_axis(low: float, high: float) -> Axis:
    """A logarithmic axis that holds [low, high]: labels at 1, 2 and 5 times powers of ten.

    Over many powers of ten only the ends and the powers themselves have labels.
    """
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    first = max(index for index, tick in enumerate(ticks) if tick <= low)
    last = max(first + 1, min(index for index, tick in enumerate(ticks) if tick >= high))
    ends, between = (ticks[first], ticks[last]), ticks[first + 1 : last]
    if len(between) > 14:
        between = [tick for tick in between if log10(tick).is_integer()]
    return Axis([ends[0], *between, ends[1]], is_log=True)


def _check(curves: Sequence[Curve], log_time: bool) -> None:
    if not curves:
        raise InputError("there are no curves to plot; expected at least one")
    for curve in curves:
        if not curve.points:
            raise InputError(f"the curve {curve.name!r} has no points; expected at least one")
        if not np.isfinite(curve.points).all():
            raise InputError(f"the curve {curve.name!r} has a point that is not finite")
        if log_time and min(second for second, _ in curve.points) <= 0.0:
            raise InputError(f"the curve {curve.name!r} begins at no positive time; log_time is on")


def _draw_axes(
    pen: _Pen, times: Axis, decibels: Axis, place: Callable[[float, float], Place]
) -> None:
    left, top, right, bottom = BOX
    for second in times.ticks:
        x, _ = place(second, decibels.ticks[0])
        pen.line([(x, top), (x, bottom)], FAINT, 1)
        pen.text((x, bottom + 9), f"{second:g}", 15, "mt")
    for decibel in decibels.ticks:
        _, y = place(times.ticks[0], decibel)
        pen.line([(left, y), (right, y)], FAINT, 1)
        pen.text((left - 9, y), f"{decibel:g}", 15, "rm")
    pen.line([(left, top), (left, bottom), (right, bottom)], INK, 2)
    pen.text(((left + right) / 2, SIZE[1] - 10), "seconds of training", 17, "mb")
    pen.text((left, top - 8), "PSNR of held-out views, dB", 15, "lb")


def _draw_legend(pen: _Pen, curves: Sequence[Curve]) -> None:
    """The curves' names beside what is drawn of them, in the lower right corner."""
    _, _, right, bottom = BOX
    names = [curve.name for curve in curves]
    x = right - 70 - max(pen.width(name, 16) for name in names)
    y = bottom - 8 - 26 * len(names)
    pen.rectangle((x - 12, y - 6, right - 10, bottom - 10))
    for index, curve in enumerate(curves):
        middle, colour = y + 8 + 26 * index, COLOURS[index % len(COLOURS)]
        if len(curve.points) > 1:
            pen.curve([(x, middle), (x + 34, middle)], colour)
        elif curve.marks:
            pen.ring((x + 17, middle), "", colour)
        else:
            pen.curve([(x + 17, middle)], colour)
        pen.text((x + 46, middle), curve.name, 16, "lm")


class _Pen:
    """Draws on a canvas that is larger than the picture, in the picture's own pixels."""

    def __init__(self) -> None:
        width, height = SIZE
        size = width * OVERSAMPLING, height * OVERSAMPLING
        self._canvas = Image.new("RGB", size, "white")
        self._draw = ImageDraw.Draw(self._canvas)

    def picture(self) -> Image.Image:
        return self._canvas.reduce(OVERSAMPLING)

    def line(self, places: Sequence[Place], colour: tuple[int, int, int], width: int) -> None:
        self._draw.line([_enlarged(p) for p in places], colour, width * OVERSAMPLING, "curve")

    def curve(self, places: Sequence[Place], colour: tuple[int, int, int]) -> None:
        self.line(places, colour, 3)
        for place in places:
            self._dot(place, 4.0, colour)

    def ring(self, place: Place, label: str, colour: tuple[int, int, int]) -> None:
        self._dot(place, 8.0, colour)
        self._dot(place, 5.0, (255, 255, 255))
        self.text((place[0], place[1] + 12), label, 13, "mt", colour)

    def rectangle(self, box: tuple[float, float, float, float]) -> None:
        corners = (_enlarged(box[:2]), _enlarged(box[2:]))
        self._draw.rectangle([*corners[0], *corners[1]], "white", FAINT, OVERSAMPLING)

    def text(
        self,
        place: Place,
        text: str,
        size: int,
        anchor: str,
        colour: tuple[int, int, int] = INK,
    ) -> None:
        self._draw.text(_enlarged(place), text, colour, _font(size), anchor)

    def width(self, text: str, size: int) -> float:
        return self._draw.textlength(text, _font(size)) / OVERSAMPLING

    def _dot(self, place: Place, radius: float, colour: tuple[int, int, int]) -> None:
        x, y = place
        low, high = _enlarged((x - radius, y - radius)), _enlarged((x + radius, y + radius))
        self._draw.ellipse([*low, *high], colour)


def _enlarged(place: Place) -> Place:
    return place[0] * OVERSAMPLING, place[1] * OVERSAMPLING


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * OVERSAMPLING)
