"""A page of a split's views: truth, rendering, error and depth, in one file that opens from disk.

Figures are of the exact pictures; those shown are JPEG.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from nerfmac.common.files import appearing
from nerfmac.export.page import check_page, head, scene_name, view_section
from nerfmac.rendering.evaluation import Compared, ViewQuality, evaluate
from nerfmac.rendering.perceptual import Lpips
from nerfmac.run import Run

WORST = 5
"""Views that are listed at the top."""


def evaluate_to_page(
    run: Run,
    path: str | Path,
    split: str = "test",
    background: str = "white",
    *,
    progress: bool = True,
    lpips: Lpips | None = None,
) -> list[ViewQuality]:
    """Evaluate all views of a split, as `Run.evaluate` does, and write them to an .html file.

    It holds one view's pictures in memory at a time. Raises `InputError` for another ending, and
    whatever keeps the file from being written.
    """
    path = Path(path)
    check_page(path)
    with appearing(path) as partial, tempfile.TemporaryFile("w+", encoding="utf-8") as body:
        views = run.views(split, progress=progress)

        def add(view: ViewQuality, pictures: Compared) -> None:
            body.write(view_section(view, pictures, views.names.index(view.name)))

        blend = run.config.train.blend
        given = views, background, blend
        outcomes = evaluate(run.renderer(), *given, on_view=add, lpips=lpips)
        bar = tqdm(outcomes, f"{split} views", len(views.names), disable=not progress, unit="view")
        found = list(bar)
        title = f"{split} views of {scene_name(run)}"
        with partial.open("w", encoding="utf-8") as file:
            file.write(head(title))
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
