"""A curve over seconds of training, as an SVG inside of a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 480, 280
LEFT, TOP, RIGHT, BOTTOM = 58, 26, 468, 248  # of the axes


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


def curve_svg(
    title: str, points: Sequence[tuple[float, float]], *, log_values: bool = False
) -> str:
    """A line through `points` (seconds, value), with axes; `log_values`: all are above zero."""
    times = linear_axis(0.0, max(seconds for seconds, _ in points))
    values = [value for _, value in points]
    axis = (log_axis if log_values else linear_axis)(min(values), max(values))

    def x(seconds: float) -> float:
        return LEFT + times.place(seconds) * (RIGHT - LEFT)

    def y(value: float) -> float:
        return BOTTOM - axis.place(value) * (BOTTOM - TOP)

    drawn = [_text((LEFT + RIGHT) / 2, HEIGHT - 4, "seconds of training")]
    drawn.append(_text(LEFT, 14, title, "start"))
    for tick in times.ticks:
        drawn += [_line(x(tick), TOP, x(tick), BOTTOM), _text(x(tick), BOTTOM + 14, f"{tick:g}")]
    for tick in axis.ticks:
        label = _text(LEFT - 6, y(tick) + 4, f"{tick:.6g}", "end")
        drawn += [_line(LEFT, y(tick), RIGHT, y(tick)), label]
    path = " ".join(f"{x(seconds):.1f},{y(value):.1f}" for seconds, value in points)
    dots = "".join(
        f'<circle cx="{x(seconds):.1f}" cy="{y(value):.1f}" r="1.5" fill="#145ac8"/>'
        for seconds, value in points
    )
    drawn.append(f'<polyline points="{path}" fill="none" stroke="#145ac8" stroke-width="2"/>{dots}')
    inside = "\n".join(drawn)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="11" fill="currentColor" role="img" '
        f'aria-label="{escape(title)}">\n{inside}\n</svg>\n'
    )


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


def _line(x0: float, y0: float, x1: float, y1: float) -> str:
    ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity=".2"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
