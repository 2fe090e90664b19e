"""Quality on a split: every view rendered and compared with its photograph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.geometry.colour import over
from nerfmac.rendering.metrics import psnr, ssim
from nerfmac.rendering.renderer import Rendered, Renderer
from nerfmac.scenes import Views

BACKGROUNDS = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}


class ViewQuality(NamedTuple):
    """One view's outcome."""

    name: str
    psnr: float  # dB
    ssim: float
    rendered: Rendered
    photograph: np.ndarray  # (h, w, 3) float32 in [0, 1], over the background


def evaluate(
    renderer: Renderer, views: Views, background: str = "white", blend: str = "srgb"
) -> Iterator[ViewQuality]:
    """Render and compare view after view.

    `background` is `white` or `black`; where pictures have alpha they are blended over it in the
    light that `blend` names. The measure of a split is the mean over its views of PSNR and SSIM.
    """
    colour = BACKGROUNDS[background]
    for index, name in enumerate(views.names):
        rendered = renderer.render(views.cameras[index], colour)
        photograph = views.images[index].astype(mx.float32) / 255.0
        if photograph.shape[2] == 4:
            photograph = over(photograph, mx.array(colour), blend)
        target = np.array(photograph)
        yield ViewQuality(
            name,
            psnr(rendered.colour, target),
            ssim(rendered.colour, target),
            rendered,
            target,
        )
