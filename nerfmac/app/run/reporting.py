"""Reporting of training: log, curves, `scalars.jsonl`, and a warning if nothing is learned.

`Scalars` writes reports during training as the JSON lines of `scalars.jsonl`, at most one line per
second and without buffering, so that other programs can follow the file. A last line that a full
disk or a power failure has truncated is ignored.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import backend, peak_memory_bytes, references
from nerfmac.common import InputError, appearing, log
from nerfmac.geometry import Views, blended
from nerfmac.ops.draw_pixels import draw_pixels, random_pixels
from nerfmac.rendering.metrics import decibels
from nerfmac.training.goal import Report

MOST_POINTS = 1024
"""Maximum number of points, an even number. When a history has this many points, neighboring points
are merged in pairs."""
CHECKED_AT = 1000  # Training step after which the field is compared with a constant image.
_PIXELS = 2**14  # Number of random pixels for estimating the PSNR of the constant image.
_POINTS = 8  # Number of history points that are averaged for the PSNR of the field.
_MARGIN = 1.0  # Minimum PSNR difference in dB between the field and the constant image.


def log_backends(build_seconds: float) -> None:
    """Log the backend, the operations without a kernel, and the memory use after compiling."""
    log.debug("backend %s; compiling kernels took %.1f s", backend(), build_seconds)
    operations: dict[str, list[str]] = {}
    for operation, reason in references().items():
        operations.setdefault(reason, []).append(operation)
    for reason, names in operations.items():
        log.info("no kernel for %s, using plain MLX operations: %s", ", ".join(names), reason)
    log_memory("after compiling")


def log_memory(when: str) -> None:
    """Log the active MLX memory and the peak memory of the process in MB."""
    active, peak = mx.get_active_memory(), peak_memory_bytes()
    log.debug("memory %s: %.0f MB active, peak %.0f MB", when, active / 1e6, peak / 1e6)


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


def constant_psnr(views: Views, blend: str) -> float:
    """Compute the PSNR in dB that the best constant image would have on the training views. The
    constant image has the mean color and opacity of the views. The result is computed from random
    unmasked pixels over random backgrounds, like the training PSNR."""
    background = mx.random.uniform(shape=(_PIXELS, 3), key=mx.random.key(1))
    index = random_pixels(views.cameras, _PIXELS, mx.random.key(0))
    _, color, alpha, _ = draw_pixels(views.pixels, views.cameras, index)
    weight = mx.ones((_PIXELS, 1))
    if views.kept is not None:
        weight = views.kept[index].reshape(-1, 1)
    weight = weight.astype(mx.float32)
    weight = weight / mx.maximum(weight.sum(), 1.0)
    opacity = (weight * alpha).sum(axis=0, keepdims=True)
    mean = (weight * alpha * color).sum(axis=0, keepdims=True) / mx.maximum(opacity, 1e-6)
    constant = blended(mean, opacity, background, blend)
    error = mx.square(blended(color, alpha, background, blend) - constant)
    return decibels(max(float((weight * error).sum()) / 3.0, 1e-10))


def warn_if_nothing_is_learned(points: Sequence[Point], views: Views, blend: str) -> None:
    """Warn if the training PSNR of the last `points` is no better than `constant_psnr`."""
    last = points[-_POINTS:]
    psnr, constant = sum(point.psnr for point in last) / len(last), constant_psnr(views, blend)
    if psnr < constant + _MARGIN:
        log.warning(
            "the field has not learned the scene in %d steps: its training PSNR is %.1f dB, and a "
            "constant image reaches %.1f dB. Check the cameras with `nerfmac inspect`, or try "
            "another --seed or --optimizer.rate 0.01",
            *(last[-1].step, psnr, constant),
        )


NAME = "scalars.jsonl"  # Name of the file in the run folder.
SECONDS = 1.0  # Minimum time between two lines of the file, except the last line.


class Scalars:
    """Writer of training reports. If the disk is full, a warning is logged once and no more reports
    are written, but training continues."""

    def __init__(self, folder: Path, *, step: int = 0) -> None:
        """Open the file in a run folder, and remove existing lines of steps after `step`."""
        path = folder / NAME
        kept = [values for values in read_scalars(folder) if values["step"] <= step]
        with appearing(path) as partial:
            partial.write_text("".join(json.dumps(values) + "\n" for values in kept))
        self._path, self._file = path, path.open("ab", buffering=0)
        self._last: Report | None = None
        self._written = -float("inf")

    def add(self, report: Report) -> None:
        """Write a report if the last line is at least a second old. Otherwise, keep the report
        until a later report replaces it or `close` writes it."""
        self._last = report
        if time.monotonic() - self._written >= SECONDS:
            self._write(report)

    def close(self) -> None:
        """Write the last report and close the file."""
        if self._last is not None:
            self._write(self._last)
        self._file.close()

    def _write(self, report: Report) -> None:
        self._written, self._last = time.monotonic(), None
        if self._file.closed:
            return
        line = (json.dumps(_values(report)) + "\n").encode()
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._file.close()
            log.warning("cannot write %s: %s; continuing without it", self._path, error.strerror)


def read_scalars(folder: Path) -> list[dict[str, Any]]:
    """Read the reports in `scalars.jsonl` of a run folder. Without the file, the list is empty."""
    path = folder / NAME
    content = path.read_bytes() if path.is_file() else b""
    # A full disk or a power failure may have truncated the last line.
    whole, reports = content[: content.rfind(b"\n") + 1], []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            values = json.loads(line)
            reports.append({**values, "step": int(values["step"])})
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: the line is not a training report in JSON; delete the line"
            ) from error
    return reports


def read_history(folder: Path, step: int) -> History | None:
    """Read the loss and PSNR curves up to `step` from `scalars.jsonl` in a run folder. Return None
    if the file does not exist or contains no such line."""
    lines = [values for values in read_scalars(folder) if values["step"] <= step]
    if not lines:
        return None
    history = History()
    history.points = [
        Point(values["step"], values["seconds"], values["loss"], values["psnr"]) for values in lines
    ]
    return history


def _values(report: Report) -> dict[str, Any]:
    state = report.state
    return {
        "step": state.step,
        "seconds": state.train_seconds,
        "rays": state.rays,
        "loss": report.loss,
        "psnr": report.psnr,
        "rays_per_second": report.rays_per_second,
        "samples_per_second": report.samples_per_second,
    }
