"""Quality on a split: views rendered and compared with their photographs, on the device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.timeline import interval
from nerfmac.rendering.metrics import WINDOW, Sums, decibels, similarity, squared_error
from nerfmac.rendering.pace import middle_rows, seconds_per_pixel, spread
from nerfmac.rendering.perceptual import Lpips
from nerfmac.rendering.renderer import Picture, Renderer
from nerfmac.scenes import Views

BACKGROUNDS = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}


class ViewQuality(NamedTuple):
    """One view's outcome."""

    name: str
    psnr: float  # dB
    ssim: float
    row_fraction: float = 1.0  # of the picture's rows, how many were compared: those in its middle
    lpips: float | None = None  # where it is measured


def measured(views: Sequence[ViewQuality], of: int, split: str) -> str:
    """What `views` say how much of, such as "the middle 62 % of 1 of 9 test views".

    `of` is the number of views in the `split`.
    """
    rows = views[0].row_fraction if views else 1.0
    middle = f"the middle {100.0 * rows:.0f} % of " if rows < 1.0 else ""
    part = f"{len(views)} of " if len(views) < of or middle else ""
    return f"{middle}{part}{of} {split} view{'' if of == 1 else 's'}"


class Compared(NamedTuple):
    """A view's pictures on the host, of the rows that were compared."""

    truth: Picture  # (h, w, 3) sRGB in [0, 1], over the background
    rendering: Picture  # (h, w, 3), likewise
    opacity: Picture  # (h, w)
    depth: Picture  # (h, w) in scene units; 0 where nothing is


OnView = Callable[[ViewQuality, Compared], None]
"""Is given each view's outcome and pictures."""


class _Comparison(NamedTuple):
    """A view that the device is busy with."""

    name: str
    error: Sums
    similarity: Sums
    row_fraction: float
    lpips: mx.array | None
    kept: mx.array  # the part of the pixels that no mask leaves out
    pictures: tuple[mx.array, ...] = ()  # as in `Compared`, if they are wanted

    def outcome(self, on_view: OnView | None) -> ViewQuality:
        # Masked pixels are equal in both pictures: they add nothing to either sum of differences.
        with interval("wait for a view", view=self.name):
            kept = max(float(self.kept), 1e-9)
            psnr = decibels(self.error.mean() / kept)
            ssim = 1.0 - (1.0 - self.similarity.mean()) / kept
            lpips = None if self.lpips is None else float(self.lpips)
        if math.isnan(psnr):
            raise InputError(f"{self.name} cannot be measured: its picture is not finite")
        view = ViewQuality(self.name, psnr, ssim, self.row_fraction, lpips)
        if on_view:
            on_view(view, Compared(*map(np.array, self.pictures)))
        return view


def evaluate(
    renderer: Renderer,
    views: Views,
    background: str = "white",
    blend: str = "srgb",
    *,
    seconds: float | None = None,
    on_view: OnView | None = None,
    lpips: Lpips | None = None,
) -> Iterator[ViewQuality]:
    """Render and compare view after view; no picture is kept, but `on_view` is given each.

    `background` is `white` or `black`; where pictures have alpha they are blended over it in the
    light that `blend` names. What a mask leaves out is shown as the photograph has it: it counts
    neither for PSNR nor for SSIM, whose windows count by the pixels that are left, but for `lpips`
    as equal. The measure of a split is the mean over its views of PSNR and SSIM, and of `lpips` if
    it is given.

    With `seconds`, as many views as fit into that time, spread evenly over the split, in an order
    of their own: at least one, and of that one the middle rows alone if the whole does not fit.
    The first view's size and pace are taken for all, then the pace so far.

    Raises `InputError` for a view whose picture has numbers that are not finite.
    """
    order: Sequence[int] = range(len(views.names))
    lens = views.cameras[0].lens
    part, start, each = 1.0, time.perf_counter(), 0.0
    if seconds is not None:
        order = spread(len(views.names))
        each = seconds_per_pixel(renderer, [views.cameras[0]]) * lens.width * lens.height
        seconds -= time.perf_counter() - start
        if each > seconds:
            part = seconds / each
        start = time.perf_counter()
    under_way: _Comparison | None = None
    for begun, index in enumerate(order):
        if seconds is not None and begun and (begun + 1) * each > seconds:
            break
        light = background, blend
        keep = on_view is not None
        with interval("begin a view", view=views.names[index]):
            comparison = _compare(renderer, views, index, light, part, lpips, keep=keep)
        if under_way:  # the device goes on with the next view while the host waits for this one
            yield under_way.outcome(on_view)
            each = (time.perf_counter() - start) / begun
        under_way = comparison
    if under_way:
        yield under_way.outcome(on_view)


def _compare(
    renderer: Renderer,
    views: Views,
    index: int,
    light: tuple[str, str],
    part: float,
    lpips: Lpips | None,
    *,
    keep: bool,
) -> _Comparison:
    """Begin to render this `part` of a view, its middle rows, and to compare; keep the pictures or
    not.
    """
    background, blend = light
    colour, (_, height) = BACKGROUNDS[background], views.cameras.sizes[index]
    rows = min(max(int(height * part), WINDOW), height)
    first = (height - rows) // 2
    target = views.blended(index, colour, blend)[first : first + rows]
    pixels, opacity, depth = renderer.pixels(middle_rows(views.cameras[index], rows), colour)
    rendered, part_kept = pixels.reshape(target.shape), mx.array(1.0)
    if (kept_pixels := views.kept_of(index)) is not None:
        looked_at = kept_pixels[first : first + rows]
        rendered = mx.where(looked_at[..., None], rendered, target)
        part_kept = looked_at.astype(mx.float32).mean()
    error, alike = squared_error(rendered, target), similarity(rendered, target)
    looks = lpips(rendered, target) if lpips else None
    if looks is not None:
        mx.async_eval(looks)
    pictures = (target, rendered, *(each.reshape(target.shape[:2]) for each in (opacity, depth)))
    kept = pictures if keep else ()
    return _Comparison(views.names[index], error, alike, rows / height, looks, part_kept, kept)
