"""A PNG of PSNR over seconds of training: named curves with labelled marks, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nerfmac.checks import InputError
from nerfmac.extras import needed
from nerfmac.files import appearing

COLOURS = ("#145ac8", "#e15f14", "#148c50", "#963caa", "#be9600", "#5a5a5a")
"""Colours of the curves in order; the seventh curve has the first colour again."""


class Mark(NamedTuple):
    """A labelled ring on a curve."""

    seconds: float
    label: str


@dataclass(frozen=True)
class Curve:
    """One curve, and its name in the legend."""

    name: str
    points: Sequence[tuple[float, float]]  # (seconds of training, PSNR in dB), in order of time
    marks: Sequence[Mark] = ()  # marks outside the curve's time are not drawn


def check_plot() -> None:
    """Raise `InputError` if the library of the extra `plot` is not installed."""
    needed("matplotlib", "plot", "plots need")


def plot_quality(
    path: str | Path,
    curves: Sequence[Curve],
    *,
    title: str = "",
    note: str = "",
    log_time: bool = False,
) -> None:
    """Write a PNG of `curves` to `path`; the file appears whole or not at all.

    Args:
        path: name of the file.
        curves: at least one curve; each has at least one point.
        title: text above the axes on the left.
        note: smaller text above the axes on the right, such as the meaning of the marks.
        log_time: draw the axis of time logarithmically.

    Raises:
        InputError: matplotlib is missing, a curve is empty or not finite, a time on a logarithmic
            axis is not positive, or the file cannot be written.
    """
    _check(curves, log_time)
    figure = needed("matplotlib.figure", "plot", "plots need").Figure((9.6, 6.0), layout="tight")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.set_title(note, loc="right", fontsize=9)
    axes.set(xlabel="seconds of training", ylabel="PSNR of held-out views, dB")
    if log_time:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="#dedede")
    for index, curve in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        seconds, psnr = np.array(curve.points, float).T
        axes.plot(seconds, psnr, "o-", color=colour, markersize=4, label=curve.name)
        for mark in curve.marks:
            if seconds[0] <= mark.seconds <= seconds[-1]:
                scale = np.log if log_time else np.asarray
                place = mark.seconds, np.interp(scale(mark.seconds), scale(seconds), psnr)
                axes.plot(*place, "o", color=colour, markersize=9, markerfacecolor="white")
                axes.annotate(
                    mark.label,
                    place,
                    (0, -18),
                    textcoords="offset points",
                    ha="center",
                    color=colour,
                )
    axes.legend(loc="lower right")
    with appearing(Path(path)) as partial:
        figure.savefig(partial, format="png")


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
