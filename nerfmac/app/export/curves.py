"""Drawing of curves as SVG for HTML pages, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, HEIGHT = 480, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 44  # Margins of the plot in SVG units.
TICKS = 5  # Approximate number of ticks per axis.
COLOR = "#2f6fd0"


def curve(title: str, points: Sequence[tuple[float, float]], *, is_log: bool = False) -> str:
    """Return the SVG of a curve through points (seconds, value), with values above 0 if
    `is_log`."""
    seconds, values = np.array(points, np.float64).T
    heights = np.log10(values) if is_log else values
    marks = (log_ticks if is_log else ticks)(float(heights.min()), float(heights.max()))
    low, high = marks[0], marks[-1]
    times = ticks(0.0, max(float(seconds.max()), 1e-9))

    def x(time: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * time / times[-1]

    def y(height: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (height - low) / (high - low)

    line = " ".join(f"{x(t):.1f},{y(h):.1f}" for t, h in zip(seconds, heights, strict=True))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
        'font-size="12" fill="currentColor">',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
        *(_across(y(mark), _label(10.0**mark if is_log else mark)) for mark in marks),
        *(_along(x(time), _label(time)) for time in times),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        "seconds of training</text>",
        f'<polyline points="{line}" fill="none" stroke="{COLOR}" stroke-width="2"/>',
        f'<circle cx="{x(seconds[-1]):.1f}" cy="{y(heights[-1]):.1f}" r="3" fill="{COLOR}"/>',
        "</svg>\n",
    ]
    return "".join(parts)


def ticks(low: float, high: float) -> list[float]:
    """Return axis ticks that enclose [`low`, `high`], at multiples of 1, 2, or 5 times a power of
    ten."""
    rough = max(high - low, 1e-9) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return consecutive integers, at least two, that enclose the base-10 exponents [`low`,
    `high`]."""
    first, last = math.floor(low), math.ceil(high)
    return [float(number) for number in range(first, max(last, first + 1) + 1)]


def _label(value: float) -> str:
    return f"{value:.4g}"


def _across(y: float, text: str) -> str:
    return (
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".2"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def _along(x: float, text: str) -> str:
    return (
        f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="currentColor" opacity=".2"/>'
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{text}</text>'
    )
