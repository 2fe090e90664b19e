"""`History`: the loss and PSNR curves of a run, with at most 1024 points."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nerfmac.common import InputError
from nerfmac.training.goal import Report

MOST_POINTS = 1024
"""Maximum number of points, an even number. When a history has this many points, neighboring points
are merged in pairs."""


class Point(NamedTuple):
    """Mean of several reports. `step` and `seconds` are from the last of them."""

    step: int
    seconds: float  # training time in seconds
    loss: float | None  # None for points recorded before the run was loaded
    psnr: float  # dB, of training pixels


class History:
    """Points of the loss and PSNR curves. `generation` is incremented whenever old points are
    merged."""

    def __init__(self, curve: Sequence[tuple[int, float, float]] = ()) -> None:
        """Create a history. `curve` contains (step, seconds, PSNR) of earlier points."""
        self.points = [Point(int(step), float(t), None, float(psnr)) for step, t, psnr in curve]
        self.generation = 0
        self._reports_per_point = 1
        self._pending: list[Point] = []

    def add(self, report: Report) -> None:
        """Add a report. In a long run, several reports are averaged into one point."""
        state = report.state
        self._pending.append(Point(state.step, state.train_seconds, report.loss, report.psnr))
        if len(self._pending) < self._reports_per_point:
            return
        self.points.append(_merged(self._pending))
        self._pending.clear()
        if len(self.points) >= MOST_POINTS:
            self.points = [_merged(self.points[i : i + 2]) for i in range(0, len(self.points), 2)]
            self._reports_per_point *= 2
            self.generation += 1

    def curve(self, most: int) -> list[tuple[int, float, float]]:
        """Return at most `most` points (step, seconds, PSNR), as in `Run.curve`."""
        size = -(-len(self.points) // most) or 1
        groups = [self.points[i : i + size] for i in range(0, len(self.points), size)]
        return [(point.step, point.seconds, point.psnr) for point in map(_merged, groups)]


def read_notes(notes: Mapping[str, Any], where: str) -> tuple[History, float, tuple[float, float]]:
    """Read the history, the compile time in seconds, and the ray and sample rates from `notes`.

    Raises `InputError` if a value is missing or is not a number. The message contains the file name
    `where`.
    """
    try:
        rays, samples = notes["rates"]
        history = History(notes["curve"])
        return history, float(notes["build_seconds"]), (float(rays), float(samples))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where} is not a complete checkpoint: its notes: {error}") from error


def _merged(points: Sequence[Point]) -> Point:
    losses = [point.loss for point in points if point.loss is not None]
    loss = sum(losses) / len(losses) if losses else None
    psnr = sum(point.psnr for point in points) / len(points)
    return Point(points[-1].step, points[-1].seconds, loss, psnr)
