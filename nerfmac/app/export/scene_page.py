"""`write_scene_page` writes an HTML page for interactive viewing of a trained field.

The page is a single file that requires neither Python nor a network connection. Its content
security policy forbids all network requests. The page first shows a still image and then renders
the field with WebGPU, with the shaders in `kernels/wgsl`. In browsers without WebGPU, only the
still image is shown.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.export.common import PAGE_EXTENSIONS, Progress, Stage, check_extension
from nerfmac.app.export.pages import joined_modules, jpeg_url, source_of
from nerfmac.app.paths import View, vertical_fov
from nerfmac.app.run import Run
from nerfmac.app.scenes.orientation import project
from nerfmac.backend.sources import kernels_folder
from nerfmac.common import Float32Array, InputError, UInt8Array, appearing, user_path
from nerfmac.common.constants import SCENE_CENTER, shader_declarations
from nerfmac.config.rendering import Box
from nerfmac.fields.encoded import EncodedField
from nerfmac.geometry import Camera, closest_plane
from nerfmac.ops.march import Occupied
from nerfmac.ops.networks import MlpShape
from nerfmac.rendering.crop import cropped
from nerfmac.version import version

STILL_SIZES = {"still": (1200, 560), "portrait": (480, 1040)}
"""Width and height in pixels of the still images for landscape and for portrait format. The page
crops an image to the aspect ratio of the window. Both images are therefore as wide or as tall as
the screens of phones."""
STILL_QUALITY = 85  # JPEG quality of the still images.
ROOM = 1.15  # Ratio of the visible width to the diameter of the subject.
SHOWN = 0.6
"""Minimum width of a narrow image, relative to the shorter side of a photo. Beyond the edges of the
photos, a scene with surroundings is not known."""
SEEN_CELLS = 32  # Number of coarse cells along each axis of a cascade; see `seen_corners`.
FADE = 0.1  # Width of the border of a photo where density fades, relative to its shorter side.

Color = tuple[float, float, float]


class PagePath(NamedTuple):
    """Camera path that the page plays in a loop."""

    cameras: Sequence[Camera]
    """Cameras that are evenly spaced in time. The page interpolates between them."""
    fps: float  # Cameras per second.
    closed: bool = False
    """Whether the path is a loop, so that the first camera follows the last one."""


def write_scene_page(
    run: Run,
    path: str | Path,
    *,
    title: str | None = None,
    background: Color | None = None,
    camera_path: PagePath | None = None,
    crop: Box | None = None,
    progress: Progress = False,
) -> None:
    """Write an HTML page that renders a trained field interactively.

    The network weights are rounded to float16, and the features of each level are quantized to 256
    values.

    Args:
        run: Run to show. The field of the run must be a hash grid with two networks.
        path: HTML file to write.
        title: Title of the page. By default, the name of the run.
        background: sRGB color in [0, 1] behind the scene. By default, the `backdrop` of the scene.
        camera_path: Camera path that plays when the page opens. The first camera of the path is the
            initial view of the page.
        crop: Lowest and highest corner of the box to show, in the coordinates of the input scene.
            By default, the whole scene.
        progress: Whether to show a progress bar, or a function; see `common.Progress`.

    Raises:
        InputError: If the file extension is not .html or .htm, if the field is not a hash grid with
            an occupancy grid, or if the file cannot be written.
    """
    path = user_path(path)
    check_extension(path, "a page", *PAGE_EXTENSIONS)
    occupied = _occupied(run, crop)
    field, title = TracedField.of(run, occupied), title or run.name
    background = background or run.scene.backdrop
    view = _first_view(run, camera_path)
    side = _side(view, run)
    renderer, stills = run.model.renderer(run.state, occupied), {}
    with Stage(len(STILL_SIZES), "still images", "image", progress) as stage:
        for name, size in STILL_SIZES.items():
            stills[name] = renderer.render(still_camera(view, side, *size), background).color
            stage.update()
    values = {
        "view": view.to_json(),
        "side": round(side, 4),
        "path": None if camera_path is None else _path_values(camera_path),
        "background": [round(channel, 4) for channel in background],
        "march": field.march,
        "levels": field.levels,
        "features": field.constants["FEATURES"],
    }
    scene = json.dumps(values).replace("<", "\\u003c")
    shaders = {"trace-shader": field.shader, "show-shader": wgsl("show")}
    blocks = [_block("scene", "application/json", scene)]
    blocks += [_block(name, "text/wgsl", source) for name, source in shaders.items()]
    for name in ("table", "values", "weights", "bits", "seen"):
        packed = _base64(gzip.compress(getattr(field, name), 9, mtime=0))
        blocks.append(_block(name, "application/octet-stream", packed))
    with appearing(path) as partial:
        partial.write_text(_page(title, stills, blocks, run), encoding="utf-8")


def _occupied(run: Run, crop: Box | None) -> Occupied:
    """Return the occupied cells of a run inside a box in the coordinates of the input scene. Raise
    `InputError` if the sampler has no occupancy grid."""
    occupied = run.model.sampler.occupied(run.state.sampling)
    if occupied is None:
        raise InputError("the page requires an occupancy grid, but the sampler of the run has none")
    if crop is None:
        return occupied
    geometry, bits = occupied
    return Occupied(geometry, cropped(bits, geometry, crop, run.scene.placement))


def _side(view: View, run: Run) -> float:
    """Return the width that narrow images of the page show, relative to the height of other images.
    It contains the subject but, in a scene with surroundings, nothing beyond the photos."""
    if not run.scene.bounds.has_surroundings:
        return 1.0
    x, y = run.scene.cameras("train")[0].lens.tangents
    side, subject = SHOWN * min(x / y, y / x), run.scene.subject
    if subject is None:
        return side
    angle = math.asin(min(ROOM * subject.radius / view.distance, 0.99))
    return min(side, math.tan(angle) / math.tan(0.5 * view.fov))


def still_camera(view: View, side: float, width: int, height: int) -> Camera:
    """Return the camera of an image of `width` x `height` pixels, as `cameraOf` in screen.js: if
    the image is narrower than `side` times its height, its vertical field of view is larger."""
    slope = max(1.0, side * height / width) * math.tan(0.5 * view.fov)
    return view.with_fov(2.0 * math.atan(slope)).camera(width, height)


def _page(title: str, stills: Mapping[str, Float32Array], blocks: Sequence[str], run: Run) -> str:
    """Return the HTML source code of the page."""
    script = joined_modules("export/page/main.js")
    style = source_of("export/page/page.css")
    about = f"{title}: an interactive radiance field from {len(run.cameras)} photos."
    parts = {
        "title": escape(title),
        "description": escape(f"{about} It is rendered in the browser, from this file only."),
        "alt": escape(f"{title}, seen from the first view of the page"),
        "version": version(),
        **{
            name: jpeg_url(still, quality=STILL_QUALITY, optimize=True)
            for name, still in stills.items()
        },
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "blocks": "\n".join(blocks),
        "script": script,
        "style": style,
    }
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], source_of("export/page/page.html"))


def with_preview(page: str, image: str) -> str:
    """Return a scene page with the tags of a preview.

    A crawler requires the absolute address of the image, which is unknown when the page is written.
    Therefore, the server that sends the page inserts the tags.

    Args:
        page: HTML source code that `write_scene_page` has written.
        image: Absolute address of the image of the preview.

    Returns:
        HTML source code.
    """
    tags = f'<meta property="og:image" content="{escape(image)}">\n'
    tags += '<meta name="twitter:card" content="summary_large_image">\n'
    return page.replace("<title>", f"{tags}<title>", 1)


def still_image(page: str) -> bytes:
    """Return the still image in landscape format of the HTML source code of a scene page, as the
    content of a JPEG file."""
    _, _, after = page.partition('id="still"')
    return base64.b64decode(after.partition("base64,")[2].partition('"')[0])


def _first_view(run: Run, camera_path: PagePath | None) -> View:
    view = View.initial(run.scene.cameras("train"), run.scene.up, run.scene.subject)
    if camera_path is None:
        return view
    camera = camera_path.cameras[0]
    return view.stand(camera.pose).with_fov(vertical_fov(camera.lens))


def _path_values(path: PagePath) -> dict[str, Any]:
    frames = [[*camera.pose.ravel(), vertical_fov(camera.lens)] for camera in path.cameras]
    return {"fps": path.fps, "closed": path.closed, "frames": np.round(frames, 6).tolist()}


def _block(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for the content security policy."""
    return _base64(hashlib.sha256(text.encode("utf-8")).digest())


MARCH_FILES = "trace", "bounds", "march", "occupancy", "seen"
FIELD_FILES = "hash_encode", "spherical_harmonics", "networks"
"""Names of the WGSL files that form the shader for rendering images."""


class TracedField(NamedTuple):
    """Field and occupancy grid of a run as data for the WGSL shader of the page."""

    constants: dict[str, int | float]
    """Constants of the shader: sizes of the table and of the networks."""
    march: dict[str, float]
    """Parameters of the scene cube, the occupancy grid, and the marching steps, as `MarchSettings`
    in march.wgsl."""
    levels: list[tuple[float, int, int, int]]
    """For each level: scale, number of vertices along an axis, index of the first table entry, and
    number of table entries."""
    table: bytes
    """Features of all levels, quantized to one byte: the index among the 256 `values` of the
    level."""
    values: bytes
    """Lookup tables from feature codes to float16 values, with 256 entries for each level; see
    `quantized`."""
    weights: bytes
    """Float16 matrices of the density network, then of the color network, stored in 4 x 4
    blocks."""
    bits: bytes
    """Bits of the occupancy grid in uint32 words, one bit per cell, as in `ops.march.Occupied`."""
    seen: bytes
    """Which corners of coarse cells photos see, one uint32 word per cell; see `seen_corners`."""

    @classmethod
    def of(cls, run: Run, occupied: Occupied) -> TracedField:
        """Convert a trained field and its occupied cells to shader data. Raise `InputError` unless
        the field is a hash grid with two networks."""
        field, average = run.model.field, run.state.average
        if not isinstance(field, EncodedField) or (grid := field.plain_grid) is None:
            raise InputError(
                "the shader of the page only supports a hash grid with two networks, but the run "
                "has another field"
            )
        levels, geometry = grid.levels, occupied.geometry
        table, density, color = (np.array(average[key]) for key in ("table", "density", "color"))
        parts = [quantized(table[first : first + entries]) for _, first, entries in levels.shapes]
        shape = field.networks_shape
        blocks = _blocks(density, shape.density) + _blocks(color, shape.color)
        return cls(
            {
                "LEVELS": levels.levels,
                "FEATURES": table.shape[1],
                "WIDTH": shape.width,
                "DENSITY_LAYERS": shape.density_layers,
                "COLOR_LAYERS": shape.color_layers,
                "DENSITY_BIAS": float(shape.density_bias),
                "SEEN_CELLS": SEEN_CELLS,
            },
            {
                "extent": geometry.bounds.extent,
                # A user of the page may approach any object, and the near plane is constant.
                "near": closest_plane(geometry.near),
                "step": geometry.step,
                "cone": geometry.cone,
                "resolution": geometry.resolution,
                "cascades": geometry.bounds.cascades,
            },
            [(scale, *shape) for scale, shape in zip(levels.scales, levels.shapes, strict=True)],
            b"".join(codes.tobytes() for codes, _ in parts),
            b"".join(values.tobytes() for _, values in parts),
            to_halves(np.concatenate(blocks)).tobytes(),
            np.array(occupied.bits).astype("<u4").tobytes(),
            seen_corners(run.cameras, geometry.bounds.cascades).tobytes(),
        )

    @property
    def shader(self) -> str:
        """WGSL source code of the shader, without the definition of the type `half` (see
        trace.wgsl)."""
        lines = [
            f"const {name}: {'f32' if isinstance(value, float) else 'u32'} = {value};\n"
            for name, value in self.constants.items()
        ]
        return (
            "".join(lines) + shader_declarations() + "\n".join(map(wgsl, MARCH_FILES + FIELD_FILES))
        )


def wgsl(name: str) -> str:
    """Return the source code in `kernels/wgsl/<name>.wgsl`."""
    return (kernels_folder() / "wgsl" / f"{name}.wgsl").read_text(encoding="ascii")


def quantized(
    features: Float32Array,
) -> tuple[UInt8Array, npt.NDArray[np.float16]]:
    """Quantize the features of a level to uint8 codes, and return the codes and their 256 float16
    values.

    The values are m sign(u) |u|^1.5 for 255 evenly spaced u in [-1, 1], where m is the maximum
    absolute feature. Values close to zero are denser, because most features are small. The PSNR of
    renderings relative to exact features is at least 65 dB, 1 to 2 dB more than with evenly spaced
    values.
    """
    even = np.linspace(-1.0, 1.0, 255)
    largest = float(np.abs(features).max(initial=0.0))
    values = to_halves(np.append(largest * np.sign(even) * np.abs(even) ** 1.5, 0.0))
    borders = 0.5 * (values[1:-1].astype(np.float32) + values[:-2].astype(np.float32))
    return np.searchsorted(borders, features).astype(np.uint8), values


def seen_corners(cameras: Sequence[Camera], cascades: int) -> npt.NDArray[np.uint32]:
    """Return how much of each corner of coarse cells the photos see, ignoring occlusion.

    Args:
        cameras: Cameras of the photos.
        cascades: Number of cascades, cubes as those of the occupancy grid. Each is divided into
            `SEEN_CELLS` cells along each axis.

    Returns:
        Array (cascades, z, y, x) with 4 bits for each of the 8 corners of a cell, x first. The
        value is 15 in the middle of a photo and decreases to 0 over `FADE` at its border. Values of
        several photos are added.
    """
    shape = 3 * (SEEN_CELLS + 1,)
    cube = np.indices(shape, np.float64).reshape(3, -1).T[:, ::-1] / SEEN_CELLS - 0.5
    points = (SCENE_CENTER + 2.0 ** np.arange(cascades)[:, None, None] * cube).reshape(-1, 3)
    seen = np.zeros(len(points))
    for camera in cameras:
        is_inside, pixel = project(points, camera.pose.astype(np.float64), camera.lens)
        size = np.array([camera.lens.width, camera.lens.height])
        seen += is_inside * np.minimum(pixel, size - pixel).min(axis=1) / (FADE * size.min())
    grid = np.minimum(15.0 * seen, 15.0).astype(np.uint32).reshape(cascades, *shape)
    corners = enumerate(itertools.product((slice(None, -1), slice(1, None)), repeat=3))
    words = [grid[:, z, y, x] << 4 * number for number, (z, y, x) in corners]
    return np.sum(words, axis=0, dtype=np.uint32)


def _blocks(weights: Float32Array, shape: MlpShape) -> list[Float32Array]:
    """Return each matrix of the flat `weights` as 4 x 4 blocks, in row-major order of blocks."""
    blocks, first = [], 0
    for rows, columns in shape.matrices:
        matrix = weights[first : first + rows * columns]
        cut = matrix.reshape(rows // 4, 4, columns // 4, 4).transpose(0, 2, 1, 3)
        blocks.append(cut.ravel())
        first += rows * columns
    return blocks


def to_halves(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float16]:
    """Round finite `values` in the range of float16 to little-endian float16."""
    limit = float(np.finfo(np.float16).max)
    if not (np.abs(values) < limit).all():
        raise InputError(f"a parameter is not finite or beyond half precision, {limit:g}")
    return values.astype("<f2")
