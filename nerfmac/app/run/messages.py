"""Training messages: progress bar, log, and a warning if the field does not improve."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from tqdm.auto import tqdm

from nerfmac.backend import backend, references
from nerfmac.backend.memory import peak_memory_bytes
from nerfmac.geometry.color import blended
from nerfmac.geometry.views import Views
from nerfmac.ops.draw_pixels import chosen_pixels, draw_pixels
from nerfmac.rendering.metrics import decibels
from nerfmac.training.history import Point

log = logging.getLogger("nerfmac")

CHECKED_AT = 1000  # Training step after which the field is compared with a constant image.
_PIXELS = 2**14  # Number of random pixels for estimating the PSNR of the constant image.
_POINTS = 8  # Number of history points that are averaged for the PSNR of the field.
_MARGIN = 1.0  # Minimum PSNR difference in dB between the field and the constant image.


def training_bar(done: float, limit: float, unit: str, *, shown: bool) -> tqdm[Any]:
    """Create a progress bar that starts at `done` of `limit` steps or seconds."""
    return tqdm(
        total=limit,
        initial=min(done, limit),
        unit=unit,
        disable=not shown,
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left{postfix}",
    )


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


def constant_psnr(views: Views, blend: str) -> float:
    """Compute the PSNR in dB that the best constant image would have on the training views.

    The constant image has the mean color and opacity of the views. The result is computed from
    random unmasked pixels over random backgrounds, like the training PSNR.
    """
    position, background = mx.random.key(0), mx.random.key(1)
    position = mx.random.uniform(shape=(3, _PIXELS), key=position)
    background = mx.random.uniform(shape=(_PIXELS, 3), key=background)
    _, color, alpha, _ = draw_pixels(views.pixels, views.cameras, position)
    weight = mx.ones((_PIXELS, 1))
    if views.kept is not None:
        weight = views.kept[chosen_pixels(views.cameras, position)].reshape(-1, 1)
    weight = weight.astype(mx.float32)
    weight = weight / mx.maximum(weight.sum(), 1.0)
    opacity = (weight * alpha).sum(axis=0, keepdims=True)
    mean = (weight * alpha * color).sum(axis=0, keepdims=True) / mx.maximum(opacity, 1e-6)
    constant = blended(mean, opacity, background, blend)
    error = mx.square(blended(color, alpha, background, blend) - constant)
    return decibels(max(float((weight * error).sum()) / 3.0, 1e-10))


def warn_if_nothing_is_learned(points: Sequence[Point], views: Views, blend: str) -> None:
    """Log a warning if the training PSNR, averaged over the last `points`, is no better than the
    PSNR of a constant image (see `constant_psnr`)."""
    last = points[-_POINTS:]
    psnr, constant = sum(point.psnr for point in last) / len(last), constant_psnr(views, blend)
    if psnr < constant + _MARGIN:
        log.warning(
            "the field has not learned the scene in %d steps: its training PSNR is %.1f dB, and a "
            "constant image reaches %.1f dB. Check the cameras with `nerfmac inspect`, or try "
            "another --seed or --optimizer.rate 0.01",
            *(last[-1].step, psnr, constant),
        )
