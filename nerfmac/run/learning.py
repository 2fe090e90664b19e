"""Whether a field learns anything: its training colours against those of one constant picture."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import log10

import mlx.core as mx

from nerfmac.geometry.colour import over
from nerfmac.ops.draw_pixels import chosen_pixels, draw_pixels
from nerfmac.scenes import Views
from nerfmac.training.history import Point

log = logging.getLogger("nerfmac")

CHECKED_AT = 1000
"""Training step after which a field should show more than a constant picture."""

_PIXELS = 2**14
_POINTS = 8  # of the history, whose mean PSNR is compared
_MARGIN = 1.0  # dB


def constant_psnr(views: Views, blend: str) -> float:
    """PSNR, in dB, of the pixel that is most like the `views`: their mean colour and opacity.

    Measured as in training, before random backgrounds; pixels that a mask leaves out do not count.
    """
    place, background = mx.random.key(0), mx.random.key(1)
    place = mx.random.uniform(shape=(3, _PIXELS), key=place)
    background = mx.random.uniform(shape=(_PIXELS, 3), key=background)
    _, rgba, _ = draw_pixels(views.pixels, views.cameras, place)
    weight = mx.ones((_PIXELS, 1))
    if views.kept is not None:
        weight = views.kept[chosen_pixels(views.cameras, place)].reshape(-1, 1).astype(mx.float32)
    weight = weight / mx.maximum(weight.sum(), 1.0)
    opacity = (weight * rgba[:, 3:]).sum(axis=0, keepdims=True)
    colour = (weight * rgba[:, 3:] * rgba[:, :3]).sum(axis=0, keepdims=True)
    colour = colour / mx.maximum(opacity, 1e-6)
    constant = mx.broadcast_to(mx.concatenate([colour, opacity], axis=1), rgba.shape)
    error = mx.square(over(rgba, background, blend) - over(constant, background, blend))
    return -10.0 * log10(max(float((weight * error).sum()) / 3.0, 1e-10))


def warn_if_nothing_is_learned(points: Sequence[Point], views: Views, blend: str) -> None:
    """Log a warning if the last of the history's `points` are no better than a constant picture."""
    last = points[-_POINTS:]
    psnr, constant = sum(point.psnr for point in last) / len(last), constant_psnr(views, blend)
    if psnr < constant + _MARGIN:
        log.warning(
            "the field has learned nothing in %d steps: its training colours have %.1f dB, one "
            "constant picture has %.1f dB. Look at the cameras with `nerfmac inspect`, or try "
            "another --seed or --optimiser.rate 0.01",
            *(last[-1].step, psnr, constant),
        )
