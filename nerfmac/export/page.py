"""What pages that open from disk are made of: their head, tables, pictures and a view's section.

Pictures are inside of a page, and it may ask for nothing else: its security policy forbids every
request.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.common.checks import InputError
from nerfmac.rendering.colour_map import INFERNO, TURBO, Anchors, coloured
from nerfmac.rendering.evaluation import Compared, ViewQuality
from nerfmac.rendering.renderer import Picture
from nerfmac.run import Run

QUALITY = 92
"""Of the JPEGs."""
LARGEST_ERROR = 0.2
"""The error, as a mean over the channels, from which on the map stays yellow."""

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
h2 {{ font-size: 1.3em; margin: 1.5em 0 .5em }}
section.curves {{ grid-template-columns: repeat(3, 1fr) }}
section > h2 {{ grid-column: 1 / -1; font-size: 1.1em; margin: 0 }}
figure {{ margin: 0; max-width: 60em }}
img {{ display: block; width: 100%; outline: 1px solid #8884 }}
figcaption, p {{ opacity: .8 }}
table {{ border-collapse: collapse }}
td, th {{ padding: .1em 1em .1em 0; text-align: left; vertical-align: top }}
td {{ font-variant-numeric: tabular-nums; overflow-wrap: anywhere }}
pre {{ overflow-x: auto; font-size: 12px }}
svg {{ width: 100%; max-width: 50em }}
@media (max-width: 50em) {{ section, section.curves {{ grid-template-columns: repeat(2, 1fr) }} }}
</style>
<h1>{title}</h1>
"""


def check_page(path: Path) -> None:
    """Raise `InputError` if `path` is no page's name."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path} is no page's name; expected an ending of .html")


def scene_name(run: Run) -> str:
    """The name of the scene of `run`: that of its folder, and not where it lies on this machine."""
    return Path(run.scene.path).name if run.scene.path else "a scene in memory"


def head(title: str) -> str:
    """The page up to its title."""
    return HEAD.format(title=escape(title))


def table(rows: Iterable[Sequence[object]], heading: Sequence[object] = ()) -> str:
    """A table of values, shown as they are."""
    names = "".join(f"<th>{escape(str(each))}</th>" for each in heading)
    lines = [f"<tr>{names}</tr>"] if heading else []
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{escape(_shown(each))}</td>" for each in row) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>\n"


def view_section(view: ViewQuality, pictures: Compared, number: int) -> str:
    """A view's truth, rendering, error and depth; links lead to `#view-NUMBER`."""
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
    figures = "".join(figure(picture, words) for picture, words in shown)
    title = f"{escape(view.name)}: {view.psnr:.2f} dB, SSIM {view.ssim:.4f}"
    return f'<section id="view-{number}"><h2>{title}</h2>\n{figures}</section>\n'


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def figure(picture: Picture, words: str) -> str:
    """A picture (h, w, 3) in [0, 1] with a line below it."""
    return (
        f'<figure><img alt="{words.split(":")[0]}" src="data:image/jpeg;base64,{_jpeg(picture)}">'
        f"<figcaption>{words}</figcaption></figure>\n"
    )


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
