"""Evaluation of a split: render its views and compare them with the photos on the device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import to_numpy
from nerfmac.backend.watchdog import confirm, is_relaxed, resumed
from nerfmac.common.checks import InputError
from nerfmac.common.timeline import interval
from nerfmac.geometry.views import Views
from nerfmac.rendering.depth_error import depth_error, relative_errors
from nerfmac.rendering.metrics import (
    WINDOW,
    Sums,
    color_corrected,
    decibels,
    similarity,
    squared_error,
)
from nerfmac.rendering.pace import middle_rows, seconds_per_pixel, spread
from nerfmac.rendering.perceptual import Lpips
from nerfmac.rendering.renderer import FloatImage, Renderer

BACKGROUNDS = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}


class ViewQuality(NamedTuple):
    """Image-quality metrics of a rendered view."""

    name: str
    psnr: float  # In dB.
    ssim: float
    row_fraction: float = 1.0  # Fraction of the image rows that were compared, around the middle.
    lpips: float | None = None  # None if LPIPS was not measured.
    psnr_corrected: float = math.nan  # In dB, after `metrics.color_corrected`.
    depth_median: float | None = None  # Relative depth error, or None without measured depth.
    depth_p90: float | None = None  # 90th percentile of the relative depth error.


class Evaluation(list[ViewQuality]):
    """List of the metrics of each view in a split, with the means over the views."""

    def __init__(self, views: Iterable[ViewQuality], *, split: str, of: int) -> None:
        """Create the list of metrics.

        Args:
            views: Metrics of the views.
            split: Name of the split.
            of: Number of views in the split. If the evaluation time was limited, it can be larger
                than the length of the list.
        """
        super().__init__(views)
        self.split, self.of = split, of

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over all views.

        Args:
            metric: Name of a `ViewQuality` field, such as "psnr".

        Returns:
            Mean over the views. If there are no views, or if the metric was not measured, the
            result is NaN.
        """
        values = [getattr(view, metric) for view in self]
        if metric.startswith("depth"):  # Some views may have no measured depth.
            values = [value for value in values if value is not None]
        return float(np.mean(values)) if values and None not in values else math.nan

    @property
    def psnr(self) -> float:
        """Mean of the views' PSNR values in dB, as in papers, which differs from the PSNR of the
        mean squared error."""
        return self.mean("psnr")

    @property
    def ssim(self) -> float:
        """Mean SSIM of the views."""
        return self.mean("ssim")

    @property
    def lpips(self) -> float:
        """Mean LPIPS of the views, or NaN if LPIPS was not measured."""
        return self.mean("lpips")

    def __repr__(self) -> str:
        perceptual = "" if math.isnan(self.lpips) else f", LPIPS {self.lpips:.4f}"
        depth = ""
        if not math.isnan(median := self.mean("depth_median")):
            depth = f", depth error {median:.2%} (90th percentile {self.mean('depth_p90'):.2%})"
        figures = f"PSNR {self.psnr:.2f} dB, SSIM {self.ssim:.4f}{perceptual}{depth}"
        return f"Evaluation({measured(self, self.of, self.split)}: {figures})"


def measured(views: Sequence[ViewQuality], of: int, split: str) -> str:
    """Describe the measured views and rows, as in "the middle 62 % of 1 of 9 test views".

    `of` is the number of views in the split.
    """
    rows = views[0].row_fraction if views else 1.0
    middle = f"the middle {100.0 * rows:.0f} % of " if rows < 1.0 else ""
    part = f"{len(views)} of " if len(views) < of or middle else ""
    return f"{middle}{part}{of} {split} view{'' if of == 1 else 's'}"


class Compared(NamedTuple):
    """Photo and rendering of a view in host memory, cropped to the compared rows."""

    truth: FloatImage  # (h, w, 3) sRGB in [0, 1], over the background.
    rendering: FloatImage  # (h, w, 3) sRGB in [0, 1], over the background.
    opacity: FloatImage  # (h, w).
    depth: FloatImage  # (h, w) in scene units; 0 in empty space.


OnView = Callable[[ViewQuality, Compared], None]
"""Callback that receives the metrics and images of each view."""


class _Comparison(NamedTuple):
    """Comparison of a view that the device may still be computing."""

    name: str
    error: Sums
    corrected_error: Sums
    similarity: Sums
    row_fraction: float
    lpips: mx.array | None
    unmasked: mx.array  # scalar, fraction of the pixels that are not masked
    depth_errors: mx.array | None  # from `relative_errors`
    images: tuple[mx.array, ...]  # as in `Compared`

    def outcome(self, *, with_images: bool) -> tuple[ViewQuality, Compared | None]:
        # Masked pixels are equal in both images, so they do not contribute to the errors.
        with interval("wait for a view", view=self.name):
            unmasked = max(float(self.unmasked), 1e-9)
            psnr = decibels(self.error.mean() / unmasked)
            corrected = decibels(self.corrected_error.mean() / unmasked)
            ssim = 1.0 - (1.0 - self.similarity.mean()) / unmasked
            lpips = None if self.lpips is None else float(self.lpips)
        if math.isnan(psnr):
            confirm()  # If the GPU has failed, this raises the error that explains the NaN.
            raise InputError(f"cannot measure {self.name}, because its rendering is not finite")
        depth = depth_error(self.depth_errors) or (None, None)
        view = ViewQuality(self.name, psnr, ssim, self.row_fraction, lpips, corrected, *depth)
        return view, Compared(*map(to_numpy, self.images)) if with_images else None


def evaluate(
    new_renderer: Callable[[], Renderer],
    views: Views,
    background: str = "white",
    blend: str = "srgb",
    *,
    seconds: float | None = None,
    on_view: OnView | None = None,
    lpips: Lpips | None = None,
) -> Iterator[ViewQuality]:
    """Render views and compare them with their photos. Yield the metrics of each view.

    PSNR and SSIM exclude masked pixels. For LPIPS, masked pixels are copied from the photo to the
    rendering. Images are passed to `on_view` and are not stored.

    If `seconds` is set, the number of views is limited so that the evaluation takes about this
    long. The compared views are evenly spaced in the split. If a single view takes longer than
    `seconds`, only its middle rows are compared. The time per view is first estimated from the
    rendering time of a small image, and later from the mean rendering time of finished views.

    `new_renderer` is called once, and again each time macOS stops GPU work (see
    `nerfmac.backend.watchdog`). `background` is `white` or `black`, and `blend` is the color space
    for compositing: `srgb` or `linear`.

    Raises:
        InputError: If a rendering is not finite.
    """
    order: Sequence[int] = range(len(views.names))
    renderer = new_renderer()
    lens = views.cameras[0].lens
    fraction, start, view_seconds = 1.0, time.perf_counter(), 0.0
    if seconds is not None:
        order = spread(len(views.names))
        pace = seconds_per_pixel(renderer, [views.cameras[0]])
        view_seconds = pace * lens.width * lens.height
        seconds -= time.perf_counter() - start
        if view_seconds > seconds:
            fraction = seconds / view_seconds
        start = time.perf_counter()

    def outcomes_from(done: int) -> Iterator[tuple[ViewQuality, Compared | None]]:
        nonlocal view_seconds
        renderer_now = new_renderer() if done or is_relaxed() else renderer
        previous: _Comparison | None = None
        for begun, index in enumerate(order[done:], done):
            if seconds is not None and begun and (begun + 1) * view_seconds > seconds:
                break
            with interval("begin a view", view=views.names[index]):
                light = background, blend
                comparison = _compare(renderer_now, views, index, light, fraction, lpips)
            if previous:  # the device already renders the next view while the host waits here
                yield previous.outcome(with_images=on_view is not None)
                view_seconds = (time.perf_counter() - start) / begun
            previous = comparison
        if previous:
            yield previous.outcome(with_images=on_view is not None)

    for view, images in resumed(outcomes_from):
        if on_view and images:
            on_view(view, images)
        yield view


def _compare(
    renderer: Renderer,
    views: Views,
    index: int,
    light: tuple[str, str],
    fraction: float,
    lpips: Lpips | None,
) -> _Comparison:
    """Start to render the middle rows of a view, a `fraction` of all rows, and to compare them with
    the photo."""
    background, blend = light
    color, (_, height) = BACKGROUNDS[background], views.cameras.sizes[index]
    rows = min(max(int(height * fraction), WINDOW), height)
    first = (height - rows) // 2
    target = views.blended(index, color, blend)[first : first + rows]
    pixels, opacity, depth = renderer.pixels(middle_rows(views.cameras[index], rows), color)
    rendered, unmasked = pixels.reshape(target.shape), mx.array(1.0)
    mask = views.kept_of(index)
    if mask is not None:
        mask = mask[first : first + rows]
        unmasked = mask.astype(mx.float32).mean()
    corrected = color_corrected(rendered, target, mask)
    if mask is not None:
        rendered, corrected = (
            mx.where(mask[..., None], image, target) for image in (rendered, corrected)
        )
    error, alike = squared_error(rendered, target), similarity(rendered, target)
    corrected_error = squared_error(corrected, target)
    distance = lpips(rendered, target) if lpips else None
    if distance is not None:
        mx.async_eval(distance)
    images = (
        target,
        rendered,
        *(values.reshape(target.shape[:2]) for values in (opacity, depth)),
    )
    depths = relative_errors(views, index, first, images[-1])
    name, part = views.names[index], rows / height
    errors = error, corrected_error, alike
    return _Comparison(name, *errors, part, distance, unmasked, depths, images)
