"""Self-contained HTML pages. `evaluate_to_page` writes a page with all views of a split.

All images and scripts are embedded, and the content security policy of a page forbids network
requests. `joined_modules` bundles ES modules into one module: each module follows the modules that
it imports, without imports and without `export`, except in the main module. Modules share one
scope, so no two of them may declare the same name.
"""

import base64
import io
import itertools
import posixpath
import re
import shutil
import tempfile
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.export.common import PAGE_EXTENSIONS, writing
from nerfmac.app.run import Run
from nerfmac.common import Float32Array, UInt8Array
from nerfmac.rendering.color_map import INFERNO, TURBO, Anchors, colored
from nerfmac.rendering.evaluation import Compared, Evaluation, ViewQuality
from nerfmac.rendering.renderer import to_bytes

QUALITY = 92
"""JPEG quality (0 to 100) of the images on a page. Metrics are computed before JPEG compression."""
MAX_ERROR = 0.2
"""Mean absolute error over the color channels, in [0, 1], at the end of the colormap (yellow)."""
WORST = 5  # Maximum number of views in the list of the worst views.


def evaluate_to_page(
    run: Run,
    path: str | Path,
    split: str = "test",
    background: str = "white",
    *,
    progress: bool = True,
) -> Evaluation:
    """Evaluate all views of a split and write an HTML page. The metrics are the same as in
    `Run.evaluate`.

    The page shows the photo, rendering, error, and depth of each view. At any time, the images of
    only one view are in memory.

    Args:
        run: Run to evaluate.
        path: File with the extension .html or .htm.
        split: Name of the split.
        background: `white` or `black`, the color behind renderings and transparent photos.
        progress: Whether to show a progress bar.

    Returns:
        Quality of each view, in the order of the split.

    Raises:
        InputError: If the file extension is unsupported, the split does not exist, its images
            cannot be read, or the file cannot be written.
    """
    output = writing(path, "a page", *PAGE_EXTENSIONS)
    with output as partial, tempfile.TemporaryFile("w+", encoding="utf-8") as body:
        numbers = itertools.count()

        def add(view: ViewQuality, images: Compared) -> None:
            body.write(view_section(view, images, next(numbers)))

        measured = run.evaluate(split, background, progress=progress, on_view=add)
        with partial.open("w", encoding="utf-8") as file:
            title = escape(f"{split} views of {run.name}")
            file.write(source_of("export/page/views.html").replace("{title}", title))
            file.write(_summary(run, measured, background))
            body.seek(0)
            shutil.copyfileobj(body, file)
    return measured


def worst(views: Sequence[ViewQuality]) -> list[ViewQuality]:
    """Return at most `WORST` views, and at most half of all, with the lowest PSNR, sorted by it."""
    return sorted(views, key=lambda view: view.psnr)[: min(WORST, len(views) // 2)]


def view_section(view: ViewQuality, images: Compared, number: int) -> str:
    """Return the HTML section `#view-NUMBER` with photo, rendering, error, and depth of a view."""
    error = np.abs(images.rendering - images.truth).mean(axis=2)
    is_seen = images.opacity > 0.5
    near, far = np.percentile(images.depth[is_seen], (1, 99)) if is_seen.any() else (0.0, 1.0)
    fraction = (images.depth - near) / max(far - near, 1e-6)
    depth = np.where(is_seen[..., None], _mapped(1.0 - fraction, TURBO), 0.0)
    shown = (
        (images.truth, "photo"),
        (images.rendering, "rendering"),
        (_mapped(error / MAX_ERROR, INFERNO), f"error: black 0, yellow {MAX_ERROR:g}"),
        (depth, f"depth: red {near:.3g}, violet {far:.3g} scene units"),
    )
    figures = "".join(figure(image, words) for image, words in shown)
    title = f"{escape(view.name)}: {view.psnr:.2f} dB, SSIM {view.ssim:.4f}"
    return f'<section id="view-{number}"><h2>{title}</h2>\n{figures}</section>\n'


def figure(image: Float32Array, caption: str) -> str:
    """Return the HTML of an image (h, w, 3) in [0, 1], embedded as a JPEG, with a caption."""
    source = jpeg_url(image, quality=QUALITY, subsampling=0)
    return (
        f'<figure><img alt="{caption.split(":")[0]}" src="{source}">'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def jpeg_url(image: Float32Array, **options: Any) -> str:
    """Return a data URL with an image (h, w, 3) in [0, 1] as a JPEG, with options of Pillow."""
    jpeg = encode_jpeg(to_bytes(image), **options)
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def encode_jpeg(rgb: UInt8Array, quality: int, **options: Any) -> bytes:
    """Encode pixels, uint8 (h, w, 3), as JPEG with a quality from 1 to 95 and options of Pillow."""
    file = io.BytesIO()
    Image.fromarray(rgb).save(file, "JPEG", quality=quality, **options)
    return file.getvalue()


def _mapped(values: npt.NDArray[np.floating], anchors: Anchors) -> Float32Array:
    """Map `values` (h, w) in [0, 1] to colors (h, w, 3) with a colormap."""
    flat = colored(mx.array(values.astype(np.float32).ravel()), anchors)
    return np.array(flat).reshape(*values.shape, 3)


def _summary(run: Run, views: Evaluation, background: str) -> str:
    numbers = {view.name: number for number, view in enumerate(views)}
    links = ", ".join(
        f'<a href="#view-{numbers[view.name]}">{escape(view.name)}</a> ({view.psnr:.2f} dB)'
        for view in worst(views)
    )
    worst_line = f"<p>Worst views: {links}</p>\n" if links else ""
    light = {"srgb": "sRGB"}.get(run.config.train.blend, run.config.train.blend)
    return (
        f"<p><strong>PSNR {views.psnr:.2f} dB, SSIM {views.ssim:.4f}</strong>, "
        f"means over {len(views)} views, "
        f"blended over {background} in {light} light; {run.state.step} steps, "
        f"{run.state.train_seconds:.1f} s of training.</p>\n{worst_line}"
    )


_IMPORT = re.compile(r'^import \{[^}]*\} from "((?:\.{1,2}/)+[\w/-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\b)", re.MULTILINE)


def source_of(name: str) -> str:
    """Return the content of a file in `nerfmac/app/`, such as "viewer/page/main.js"."""
    return (files("nerfmac") / "app" / name).read_text(encoding="utf-8")


def joined_modules(main: str) -> str:
    """Return a bundle of the module `main`, a file in `nerfmac/app/`, and all modules that it
    imports."""
    order: dict[str, str] = {}
    _visit(main, order, ())
    return "\n".join(order.values())


def _visit(name: str, order: dict[str, str], above: tuple[str, ...]) -> None:
    """Add the module `name` to `order`, after the modules that it imports."""
    if name in above:
        raise RuntimeError(f"the page's modules import each other: {' > '.join((*above, name))}")
    if name in order:
        return
    text = source_of(name)
    for imported in _IMPORT.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
        _visit(path, order, (*above, name))
    text = _IMPORT.sub("", text)
    order[name] = text if not above else _EXPORT.sub("", text)
