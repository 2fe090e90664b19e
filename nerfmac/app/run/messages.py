"""Messages of a training: its progress bar, its log, and a warning if the field learns nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from tqdm.auto import tqdm

from nerfmac.backend import backend, references
from nerfmac.backend.memory import peak_memory_bytes
from nerfmac.geometry.color import over
from nerfmac.geometry.views import Views
from nerfmac.ops.draw_pixels import chosen_pixels, draw_pixels
from nerfmac.rendering.metrics import decibels
from nerfmac.training.history import Point

log = logging.getLogger("nerfmac")

CHECKED_AT = 1000
"""Training step at which the field is compared with a constant image."""

_PIXELS = 2**14  # random training pixels, from which the constant image's PSNR is estimated
_POINTS = 8  # last points of the history, whose mean is taken as the field's PSNR
_MARGIN = 1.0  # dB by which the field's PSNR has to exceed the constant image's


def training_bar(done: float, limit: float, unit: str, *, shown: bool) -> tqdm[Any]:
    """A progress bar from `done` to `limit`, in the `unit` "steps" or "s"."""
    return tqdm(
        total=limit,
        initial=min(done, limit),
        unit=unit,
        disable=not shown,
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left{postfix}",
    )


def log_backends(build_seconds: float) -> None:
    """Log the back end, the operations without a kernel, and the memory after compiling."""
    log.debug("kernels run as %s; compiling took %.1f s in all", backend(), build_seconds)
    operations: dict[str, list[str]] = {}
    for operation, reason in references().items():
        operations.setdefault(reason, []).append(operation)
    for reason, names in operations.items():
        log.info("as reference, by plain MLX operations, run %s: %s", ", ".join(names), reason)
    log_memory("after compiling")


def log_memory(when: str) -> None:
    """Log the memory that MLX holds now and the process's peak, in MB; `when` says when."""
    active, peak = mx.get_active_memory(), peak_memory_bytes()
    log.debug("memory %s: %.0f MB active, %.0f MB at most", when, active / 1e6, peak / 1e6)


def constant_psnr(views: Views, blend: str) -> float:
    """PSNR, in dB, of the best constant image: the mean color and opacity of the `views`.

    Estimated from 2^14 random pixels over random backgrounds, as training measures its own PSNR.
    Masked pixels do not count.
    """
    position, background = mx.random.key(0), mx.random.key(1)
    position = mx.random.uniform(shape=(3, _PIXELS), key=position)
    background = mx.random.uniform(shape=(_PIXELS, 3), key=background)
    _, rgba, _ = draw_pixels(views.pixels, views.cameras, position)
    weight = mx.ones((_PIXELS, 1))
    if views.kept is not None:
        weight = views.kept[chosen_pixels(views.cameras, position)].reshape(-1, 1)
    weight = weight.astype(mx.float32)
    weight = weight / mx.maximum(weight.sum(), 1.0)
    opacity = (weight * rgba[:, 3:]).sum(axis=0, keepdims=True)
    color = (weight * rgba[:, 3:] * rgba[:, :3]).sum(axis=0, keepdims=True)
    color = color / mx.maximum(opacity, 1e-6)
    constant = mx.broadcast_to(mx.concatenate([color, opacity], axis=1), rgba.shape)
    error = mx.square(over(rgba, background, blend) - over(constant, background, blend))
    return decibels(max(float((weight * error).sum()) / 3.0, 1e-10))


def warn_if_nothing_is_learned(points: Sequence[Point], views: Views, blend: str) -> None:
    """Log a warning if the last `points` of the history are no better than a constant image."""
    last = points[-_POINTS:]
    psnr, constant = sum(point.psnr for point in last) / len(last), constant_psnr(views, blend)
    if psnr < constant + _MARGIN:
        log.warning(
            "the field has learned nothing in %d steps: PSNR of its training pixels is %.1f dB, "
            "of one constant image %.1f dB. Look at the cameras with `nerfmac inspect`, or try "
            "another --seed or --optimizer.rate 0.01",
            *(last[-1].step, psnr, constant),
        )
