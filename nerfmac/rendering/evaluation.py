"""Evaluation of a split: render its views and compare them with the photos on the device."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import confirm, resumed, to_numpy
from nerfmac.common import Float32Array, InputError, interval
from nerfmac.config.rendering import BACKGROUNDS
from nerfmac.geometry import Views
from nerfmac.rendering.metrics import (
    Sums,
    color_corrected,
    decibels,
    similarity,
    squared_error,
)
from nerfmac.rendering.renderer import Renderer
from nerfmac.rendering.surface_metrics import depth_errors, relative_errors


class ViewQuality(NamedTuple):
    """Image-quality metrics of a rendered view."""

    name: str
    psnr: float  # In dB.
    ssim: float
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
            of: Number of views in the split. If the number of evaluated views was limited, it is
                larger than the length of the list.
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

    def __repr__(self) -> str:
        depth = ""
        if not math.isnan(median := self.mean("depth_median")):
            depth = f", depth error {median:.2%} (90th percentile {self.mean('depth_p90'):.2%})"
        figures = f"PSNR {self.psnr:.2f} dB, SSIM {self.ssim:.4f}{depth}"
        return f"Evaluation({measured(self, self.of, self.split)}: {figures})"


def measured(views: Sequence[ViewQuality], of: int, split: str) -> str:
    """Describe the evaluated views, as in "4 of 9 test views". `of` is the number of views in the
    split."""
    part = f"{len(views)} of " if len(views) < of else ""
    return f"{part}{of} {split} view{'' if of == 1 else 's'}"


class Compared(NamedTuple):
    """Photo and rendering of a view in host memory."""

    truth: Float32Array  # (h, w, 3) sRGB in [0, 1], over the background.
    rendering: Float32Array  # (h, w, 3) sRGB in [0, 1], over the background.
    opacity: Float32Array  # (h, w).
    depth: Float32Array  # (h, w) in scene units; 0 in empty space.


OnView = Callable[[ViewQuality, Compared], None]
"""Callback that receives the metrics and images of each view."""


class _QueuedQuality(NamedTuple):
    """Metrics of a view that the device may still be computing."""

    name: str
    error: Sums
    corrected_error: Sums
    similarity: Sums
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
        if math.isnan(psnr):
            confirm()  # If the GPU has failed, this raises the error that explains the NaN.
            raise InputError(f"cannot measure {self.name}, because its rendering is not finite")
        depth = None if self.depth_errors is None else depth_errors(self.depth_errors)
        view = ViewQuality(self.name, psnr, ssim, corrected, *(depth[:2] if depth else ()))
        return view, Compared(*map(to_numpy, self.images)) if with_images else None


def evaluate(
    new_renderer: Callable[[], Renderer],
    views: Views,
    background: str = "white",
    blend: str = "srgb",
    *,
    limit: int | None = None,
    on_view: OnView | None = None,
) -> Iterator[ViewQuality]:
    """Render views and compare them with their photos. Yield the metrics of each view.

    PSNR and SSIM exclude masked pixels. Images are passed to `on_view` and are not stored. Their
    masked pixels are those of the photo.

    With `limit`, at most this number of views is compared. For the same split and limit, they are
    always the same views, evenly spaced in the split, and a larger limit adds views to them.

    `new_renderer` is called once, and again each time macOS stops GPU work (see
    `nerfmac.backend.watchdog`). `background` is `white` or `black`, and `blend` is the color space
    for compositing: `srgb` or `linear`.

    Raises:
        InputError: If a rendering is not finite.
    """
    order = spread(len(views.names))[:limit] if limit is not None else range(len(views.names))

    def outcomes_from(done: int) -> Iterator[tuple[ViewQuality, Compared | None]]:
        renderer = new_renderer()
        previous: _QueuedQuality | None = None
        for index in order[done:]:
            with interval("begin a view", view=views.names[index]):
                comparison = _compare(renderer, views, index, (background, blend))
            if previous:  # the device already renders the next view while the host waits here
                yield previous.outcome(with_images=on_view is not None)
            previous = comparison
        if previous:
            yield previous.outcome(with_images=on_view is not None)

    for view, images in resumed(outcomes_from):
        if on_view and images:
            on_view(view, images)
        yield view


def _compare(
    renderer: Renderer, views: Views, index: int, light: tuple[str, str]
) -> _QueuedQuality:
    """Start to render a view and to compare it with the photo."""
    background, blend = light
    color = BACKGROUNDS[background]
    target = views.blended(index, color, blend)
    pixels, opacity, depth, _ = renderer.pixels(views.cameras[index], color)
    rendered, unmasked = pixels.reshape(target.shape), mx.array(1.0)
    mask = views.kept_of(index)
    if mask is not None:
        unmasked = mask.astype(mx.float32).mean()
    corrected = color_corrected(rendered, target, mask)
    if mask is not None:
        rendered, corrected = (
            mx.where(mask[..., None], image, target) for image in (rendered, corrected)
        )
    error, alike = squared_error(rendered, target), similarity(rendered, target)
    corrected_error = squared_error(corrected, target)
    images = (
        target,
        rendered,
        *(values.reshape(target.shape[:2]) for values in (opacity, depth)),
    )
    depths = relative_errors(views, index, images[-1])
    name, errors = views.names[index], (error, corrected_error, alike)
    return _QueuedQuality(name, *errors, unmasked, depths, images)


def spread(count: int) -> list[int]:
    """Return the numbers 0 to `count` - 1 in an order in which every prefix is evenly spaced.

    The order is the van der Corput sequence: 0, then the half, the quarters, the eighths, and so
    on.
    """
    bits = (count - 1).bit_length()
    halves = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(2**bits))
    return list(dict.fromkeys(half * count >> bits for half in halves))
