"""A page of a split's views: truth, rendering, error and depth, in one file that opens from disk.

Pictures are inside of the file, and the page may ask for nothing else: its security policy forbids
every request. Figures are of the exact pictures; those shown are JPEG.
"""

from __future__ import annotations

import base64
import io
import shutil
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image
from tqdm.auto import tqdm

from nerfmac.checks import InputError
from nerfmac.files import appearing
from nerfmac.rendering.colour_map import INFERNO, TURBO, Anchors, coloured
from nerfmac.rendering.evaluation import Compared, ViewQuality, evaluate
from nerfmac.rendering.renderer import Picture
from nerfmac.run import Run

QUALITY = 92
"""Of the JPEGs."""
LARGEST_ERROR = 0.2
"""The error, as a mean over the channels, from which on the map stays yellow."""
WORST = 5
"""Views that are listed at the top."""

HEAD = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 100em; padding: 0 1em }}
section {{ display: grid; grid-template-columns: repeat(4, 1fr); gap: .5em; margin: 2em 0 }}
h2 {{ grid-column: 1 / -1; font-size: 1.1em; margin: 0 }}
figure {{ margin: 0 }}
img {{ display: block; width: 100% }}
figcaption, p {{ opacity: .8 }}
@media (max-width: 50em) {{ section {{ grid-template-columns: repeat(2, 1fr) }} }}
</style>
<h1>{title}</h1>
"""


def evaluate_to_page(
    run: Run,
    path: str | Path,
    split: str = "test",
    background: str = "white",
    *,
    progress: bool = True,
) -> list[ViewQuality]:
    """Evaluate all views of a split, as `Run.evaluate` does, and write them to an .html file.

    It holds one view's pictures in memory at a time. Raises `InputError` for another ending, and
    whatever keeps the file from being written.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path} is no page's name; expected an ending of .html")
    with appearing(path) as partial, tempfile.TemporaryFile("w+", encoding="utf-8") as body:
        views = run.views(split)

        def add(view: ViewQuality, pictures: Compared) -> None:
            body.write(_section(view, pictures, views.names.index(view.name)))

        blend = run.config.train.blend
        outcomes = evaluate(run.renderer(), views, background, blend, on_view=add)
        bar = tqdm(outcomes, f"{split} views", len(views.names), disable=not progress, unit="view")
        found = list(bar)
        title = f"{split} views of {run.scene.path or 'a scene in memory'}"
        with partial.open("w", encoding="utf-8") as file:
            file.write(HEAD.format(title=escape(title)))
            file.write(_summary(run, found, background))
            body.seek(0)
            shutil.copyfileobj(body, file)
    return found


def worst(views: Sequence[ViewQuality]) -> list[ViewQuality]:
    """The views with the least PSNR, at most 5 and at most half of them, the worst first."""
    return sorted(views, key=lambda view: view.psnr)[: min(WORST, len(views) // 2)]


def _summary(run: Run, views: Sequence[ViewQuality], background: str) -> str:
    psnr, ssim = (np.mean([getattr(view, name) for view in views]) for name in ("psnr", "ssim"))
    numbers = {view.name: number for number, view in enumerate(views)}
    links = ", ".join(
        f'<a href="#view-{numbers[view.name]}">{escape(view.name)}</a> ({view.psnr:.2f} dB)'
        for view in worst(views)
    )
    worst_line = f"<p>Worst views: {links}</p>\n" if links else ""
    return (
        f"<p><strong>PSNR {psnr:.2f} dB, SSIM {ssim:.4f}</strong>, means over {len(views)} views, "
        f"blended over {background} in {_light(run)} light; {run.state.step} steps, "
        f"{run.state.train_seconds:.1f} s of training.</p>\n{worst_line}"
    )


def _light(run: Run) -> str:
    return {"srgb": "sRGB"}.get(run.config.train.blend, run.config.train.blend)


def _section(view: ViewQuality, pictures: Compared, number: int) -> str:
    error = np.abs(pictures.rendering - pictures.truth).mean(axis=2)
    is_seen = pictures.opacity > 0.5
    near, far = np.percentile(pictures.depth[is_seen], (1, 99)) if is_seen.any() else (0.0, 1.0)
    place = (pictures.depth - near) / max(far - near, 1e-6)
    depth = np.where(is_seen[..., None], _mapped(1.0 - place, TURBO), 0.0)
    shown = (
        (pictures.truth, "photograph"),
        (pictures.rendering, "rendering"),
        (_mapped(error / LARGEST_ERROR, INFERNO), f"error: black 0, yellow {LARGEST_ERROR:g}"),
        (depth, f"depth: red {near:.3g}, violet {far:.3g} scene units"),
    )
    figures = "".join(
        f'<figure><img alt="{words.split(":")[0]}" src="data:image/jpeg;base64,{_jpeg(picture)}">'
        f"<figcaption>{words}</figcaption></figure>\n"
        for picture, words in shown
    )
    title = f"{escape(view.name)}: {view.psnr:.2f} dB, SSIM {view.ssim:.4f}"
    return f'<section id="view-{number}"><h2>{title}</h2>\n{figures}</section>\n'


def _mapped(values: npt.NDArray[np.floating], anchors: Anchors) -> Picture:
    """`values` (h, w) in [0, 1] as colours (h, w, 3)."""
    flat = coloured(mx.array(values.astype(np.float32).ravel()), anchors)
    return np.array(flat).reshape(*values.shape, 3)


def _jpeg(picture: Picture) -> str:
    """A picture (h, w, 3) in [0, 1] as base64."""
    pixels = (np.clip(picture, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY, subsampling=0)
    return base64.b64encode(file.getvalue()).decode()
