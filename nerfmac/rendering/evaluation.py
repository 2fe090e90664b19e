"""Quality on a split: every view rendered and compared with its photograph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nerfmac.rendering.metrics import psnr, ssim
from nerfmac.rendering.renderer import Renderer
from nerfmac.scenes import Views

BACKGROUNDS = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}


class ViewQuality(NamedTuple):
    """One view's outcome."""

    name: str
    psnr: float  # dB
    ssim: float


def evaluate(
    renderer: Renderer, views: Views, background: str = "white", blend: str = "srgb"
) -> Iterator[ViewQuality]:
    """Render and compare view after view; no picture is kept.

    `background` is `white` or `black`; where pictures have alpha they are blended over it in the
    light that `blend` names. The measure of a split is the mean over its views of PSNR and SSIM.
    """
    colour = BACKGROUNDS[background]
    for index, name in enumerate(views.names):
        rendered = renderer.render(views.cameras[index], colour).colour
        target = views.photograph(index, colour, blend)
        yield ViewQuality(name, psnr(rendered, target), ssim(rendered, target))
