"""`write_scene_page` writes an HTML page for interactive viewing of a trained field.

The page is a single file that requires neither Python nor a network connection. Its content
security policy forbids all network requests. The page first shows a still image and then renders
the field with WebGPU. In browsers without WebGPU, only the still image is shown.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from math import atan
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.app.export.pages import check_page, jpeg_url, scene_name
from nerfmac.app.export.traced_field import TracedField, wgsl
from nerfmac.app.paths import View
from nerfmac.app.run import Run
from nerfmac.common.files import appearing, user_path
from nerfmac.common.page_modules import joined_modules
from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.renderer import FloatImage
from nerfmac.version import version

STILL_SIZE = 960, 600
"""Width and height of the still image in pixels."""

STILL_QUALITY = 85
"""JPEG quality of the still image."""

Color = tuple[float, float, float]


class PagePath(NamedTuple):
    """Camera path that the page plays in a loop."""

    cameras: Sequence[Camera]
    """Cameras that are evenly spaced in time. The page interpolates between them."""
    fps: float
    """Cameras per second."""
    closed: bool = False
    """Whether the path is a loop, so that the first camera follows the last one."""


def write_scene_page(
    run: Run,
    path: str | Path,
    *,
    title: str | None = None,
    background: Color = (1.0, 1.0, 1.0),
    camera_path: PagePath | None = None,
) -> None:
    """Write an HTML page that renders a trained field interactively.

    The network weights are rounded to float16, and the features of each level are quantized to 256
    values.

    Args:
        run: Run to show. The field of the run must be a hash grid with two networks.
        path: HTML file to write.
        title: Title of the page. By default, the scene name.
        background: sRGB color in [0, 1] behind the scene.
        camera_path: Camera path that plays when the page opens. The first camera of the path is the
            initial view of the page.

    Raises:
        InputError: If the file extension is not .html or .htm, if the field is not a hash grid with
            an occupancy grid, or if the file cannot be written.
    """
    path = user_path(path)
    check_page(path)
    field, title = TracedField.of(run), title or scene_name(run)
    view = _first_view(run, camera_path)
    still = run.render(view.camera(*STILL_SIZE), background).color
    values = {
        "view": view.to_json(),
        "path": None if camera_path is None else _path_values(camera_path),
        "background": [round(channel, 4) for channel in background],
        "march": field.march,
        "levels": field.levels,
        "features": field.constants["FEATURES"],
    }
    blocks = [
        _block("scene", "application/json", json.dumps(values).replace("<", "\\u003c")),
        _block("trace-shader", "text/wgsl", field.shader),
        _block("show-shader", "text/wgsl", wgsl("show")),
        *(
            _data_block(name, getattr(field, name))
            for name in ("table", "values", "weights", "bits")
        ),
    ]
    text = _page(title, still, blocks, run)
    with appearing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _page(title: str, still: FloatImage, blocks: Sequence[str], run: Run) -> str:
    """Return the HTML source code of the page."""
    script = joined_modules(_read, "export/page/main.js")
    style = _read("export/page/page.css")
    about = f"{title}: an interactive radiance field from {len(run.scene.cameras)} photos."
    parts = {
        "title": escape(title),
        "description": escape(f"{about} It is rendered in the browser, from this file only."),
        "alt": escape(f"{title}, seen from the first view of the page"),
        "version": version(),
        "still": jpeg_url(still, quality=STILL_QUALITY, optimize=True),
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "blocks": "\n".join(blocks),
        "script": script,
        "style": style,
    }
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], _read("export/page/page.html"))


def _first_view(run: Run, camera_path: PagePath | None) -> View:
    view = View.initial(run.scene.cameras, run.scene.up, run.scene.subject)
    if camera_path is None:
        return view
    camera = camera_path.cameras[0]
    return view.stand(camera.pose).with_fov(_fov(camera))


def _fov(camera: Camera) -> float:
    """Return the vertical field of view in radians, without distortion."""
    return 2.0 * atan(camera.lens.tangents[1])


def _path_values(path: PagePath) -> dict[str, Any]:
    frames = [
        [round(float(number), 6) for number in (*camera.pose.ravel(), _fov(camera))]
        for camera in path.cameras
    ]
    return {"fps": path.fps, "closed": path.closed, "frames": frames}


def _block(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _data_block(name: str, data: bytes) -> str:
    return _block(name, "application/octet-stream", _base64(gzip.compress(data, 9, mtime=0)))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for the content security policy."""
    return _base64(hashlib.sha256(text.encode("utf-8")).digest())


def _read(name: str) -> str:
    return (files("nerfmac") / "app" / name).read_text(encoding="utf-8")
