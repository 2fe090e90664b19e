"""Plots of PSNR over training time, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.extras import needed
from nerfmac.common.files import appearing


def check_plot() -> None:
    """Raise `InputError` if the library of the extra `plot` is not installed."""
    needed("matplotlib", "plot", "plots need")


def plot_quality(
    path: str | Path,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str = "",
    log_time: bool = False,
) -> None:
    """Write a PNG of `curves` to `path`; the file appears whole or not at all.

    Args:
        path: name of the file.
        curves: at least one point (seconds, PSNR in dB), in order, by name in the legend.
        title: text above the axes.
        log_time: whether the time axis is logarithmic.

    Raises:
        InputError: matplotlib is missing, a curve is empty or not finite, a time on a logarithmic
            axis is not positive, or the file cannot be written.
    """
    if not curves:
        raise InputError("there are no curves to plot; expected at least one")
    for name, points in curves.items():
        if not points or not np.isfinite(points).all():
            raise InputError(f"the curve {name!r} has {points}; expected points that are finite")
        if log_time and min(seconds for seconds, _ in points) <= 0.0:
            raise InputError(f"the curve {name!r} begins at no positive time; log_time is on")
    check_plot()
    figure = needed("matplotlib.figure", "plot", "plots need").Figure((9.6, 6.0), layout="tight")
    axes = figure.subplots()
    axes.set(title=title, xlabel="seconds of training", ylabel="PSNR of held-out views, dB")
    if log_time:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="#dedede")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=name)
    axes.legend(loc="lower right")
    with appearing(Path(path)) as partial:
        figure.savefig(partial, format="png")
