"""Images that are sent to the page: content, message, buffers, JPEG encoding, and depth grid.

The depth grid is a coarse grid of inverse distances, with which the page warps an image. The page
draws the image as a mesh over the vertices of the grid, with the depth of each vertex, as seen from
the current camera pose (`page/image/warp.js`). The value of a vertex is the mean inverse distance
of the four adjacent cells. On a plane, this value is exact. If the four values differ strongly, an
outline crosses the cells, and the vertex has the depth of the nearest surface. Therefore, all cells
that the near surface touches move with it, and the stretched triangles contain only background
colors.

The outermost vertices are outside the image and repeat the values at its border. In a grid of
`columns` x `rows` vertices, vertex (1 + i, 1 + j) is located at the fractions i / (columns - 3) of
the image width and j / (rows - 3) of the image height.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.export import encode_jpeg
from nerfmac.app.paths import View
from nerfmac.app.viewer.images import Drawn
from nerfmac.common import Float32Array, Float64Array
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry import Camera, Lens, Sphere

JPEG_QUALITY = {True: 90, False: 80}
"""JPEG quality of full images (True) and of smaller images (False)."""
MIN_MESSAGE = 2**16
"""Minimum size in bytes of a message with an image. Shorter messages are padded.

Jupyter Server uses Nagle's algorithm: data that does not fill a TCP segment waits 40 ms for the
delayed acknowledgment. TCP segments on the loopback interface are slightly shorter than
`MIN_MESSAGE`.
"""
PICK_RADIUS = 2  # Radius in pixels around a click, so that a click can hit thin objects.


@dataclass(frozen=True, eq=False)
class Target:
    """Content of an image, compared by identity: every change creates a new `Target`."""

    view: View
    options: RenderOptions
    training_camera: Camera | None = None  # Camera of the view in a comparison with its photo.
    subject: Sphere | None = None  # Sphere around the subject of the scene.
    resolution: int | None = None  # Maximum length of the longer side of an image in pixels.

    def camera(self, width: int, height: int) -> Camera:
        """Return the camera of an image of `width` x `height` pixels."""
        if self.training_camera is not None:
            lens = self.training_camera.lens.scaled(width, height)
            return replace(self.training_camera, lens=lens)
        return self.view.camera(width, height)

    def full_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height in pixels of the full image in an area of `width` x `height`
        device pixels. An image that is compared with a photo has the aspect ratio of the photo and
        is at most as large."""
        if self.resolution is not None:
            factor = min(1.0, self.resolution / max(width, height))
            width, height = max(round(factor * width), 1), max(round(factor * height), 1)
        if self.training_camera is None:
            return width, height
        lens = self.training_camera.lens
        factor = min(width / lens.width, height / lens.height, 1.0)
        return max(round(lens.width * factor), 1), max(round(lens.height * factor), 1)


class ScreenImage(NamedTuple):
    """Finished image for the page."""

    # The loop adds the number of the image, `t`, the view, and the comparison before sending.
    message: dict[str, Any]
    jpeg: bytes
    grid: bytes  # Deflated codes of the depth grid, or empty if the page cannot warp the image.
    drawn: Drawn
    camera: Camera
    target: Target
    scale: float  # Width and height relative to the full image, before rounding.

    @classmethod
    def of(
        cls,
        drawn: Drawn,
        camera: Camera,
        target: Target,
        full_size: tuple[int, int],
        scale: float,
        step: int,
        *,
        warps: bool,
    ) -> ScreenImage:
        """Encode an image of a training step. If the page warps images, the image has a depth grid,
        unless its camera is a training camera, which may be distorted."""
        grid, depth, is_full = b"", None, scale == 1.0
        if warps and target.training_camera is None:
            grid, depth = deflated_grid(drawn.depth * drawn.is_surface, *full_size)
        message = {
            "kind": "frame",
            "width": full_size[0],
            "height": full_size[1],
            "pose": [float(number) for number in camera.pose.ravel()],
            "lens": relative_lens(camera.lens),
            "still": is_full or step == 0,
            "scale": camera.lens.width / full_size[0],
            "step": step,
            "depth": depth,
        }
        jpeg = encode_jpeg(drawn.rgb, JPEG_QUALITY[is_full])
        return cls(message, jpeg, grid, drawn, camera, target, scale)

    @property
    def is_full(self) -> bool:
        """Whether the image has full size."""
        return self.scale == 1.0

    @property
    def buffers(self) -> list[bytes]:
        """Buffers of the message: JPEG image, depth grid if it exists, and padding."""
        buffers = [self.jpeg, self.grid] if self.grid else [self.jpeg]
        missing = MIN_MESSAGE - sum(map(len, buffers))
        return [*buffers, bytes(missing)] if missing > 0 else buffers

    def point_at(self, x: float, y: float, otherwise: float) -> Float64Array:
        """Return the scene position (3,) that is visible at an image position in [0, 1] from the
        left and top, without lens distortion. If all pixels around it are empty, use the distance
        `otherwise`."""
        lens, pose = self.camera.lens, self.camera.pose.astype(np.float64)
        column, row = np.clip(x, 0.0, 1.0) * lens.width, np.clip(y, 0.0, 1.0) * lens.height
        right, down = (column - lens.cx) / lens.fl_x, (row - lens.cy) / lens.fl_y
        direction = pose[:, :3] @ np.array([right, -down, -1.0])
        rows, columns = (
            slice(max(int(pixel) - PICK_RADIUS, 0), int(pixel) + PICK_RADIUS + 1)
            for pixel in (row, column)
        )
        depth = self.drawn.depth[rows, columns]
        depth = depth[depth > 0.0]
        distance = float(np.median(depth)) if len(depth) else otherwise
        return pose[:, 3] + distance * direction / np.linalg.norm(direction)


def relative_lens(lens: Lens) -> list[float]:
    """Return `fl_x`, `fl_y`, `cx`, and `cy` relative to the image width (x) and height (y)."""
    width, height = lens.width, lens.height
    return [lens.fl_x / width, lens.fl_y / height, lens.cx / width, lens.cy / height]


CELL = 5  # Side length of a cell in pixels of the full image.
MAX_CELLS = 160  # Maximum number of cells per row and per column.
OUTLINE = 1.1
"""An outline crosses the cells around a vertex if the ratio of their maximum to their mean inverse
distance exceeds this value."""
RIM = 1
"""Width in pixels of the border around a near surface. Border pixels mix the colors of the surface
and the background, and move with the surface."""
MAX_CODE = 2**16 - 1


def deflated_grid(
    depth: Float32Array, full_width: int, full_height: int
) -> tuple[bytes, dict[str, Any]]:
    """Encode the depth grid of an image from distances (h, w) in scene units, 0 for empty pixels,
    and the size of the full image in pixels.

    Returns codes (rows, columns) as deflated little-endian uint16 in row-major order, and a
    dictionary with `columns`, `rows`, and `largest`, the maximum inverse distance per scene unit. A
    code is the inverse distance in units of `largest` / 65535, and 0 for a far or empty vertex.
    """
    height, width = depth.shape
    columns = min(max(full_width // CELL, 1), MAX_CELLS, width)
    rows = min(max(full_height // CELL, 1), MAX_CELLS, height)
    values = inverse_grid(depth, columns, rows)
    largest = max(float(values.max()), 1e-6)
    codes = np.round(values * (MAX_CODE / largest)).astype("<u2")
    shape = {"columns": codes.shape[1], "rows": codes.shape[0], "largest": largest}
    return zlib.compress(codes.tobytes(), 1), shape


def inverse_grid(depth: Float32Array, columns: int, rows: int) -> Float32Array:
    """Return the inverse distances at the vertices of a grid of `rows` x `columns` cells over the
    image, with a border of one more vertex on each side, (rows + 3, columns + 3).

    `depth` (h, w) contains distances and is 0 for empty pixels.
    """
    inverse = np.where(depth > 0.0, 1.0 / np.maximum(depth, 1e-6), 0.0).astype(np.float32)
    nearest = _around(_pooled(np.maximum, _widened(inverse), columns, rows), np.maximum)
    cells = _pooled(np.add, inverse, columns, rows)
    cells /= _pooled(np.add, np.ones_like(inverse), columns, rows)
    mean = _around(cells, np.add) / 4.0
    return np.pad(np.where(nearest > OUTLINE * mean, nearest, mean), 1, mode="edge")


def _widened(values: Float32Array) -> Float32Array:
    """Return the maximum of `values` (h, w) within `RIM` pixels in each direction."""
    for axis in (0, 1):
        width = [(0, 0), (0, 0)]
        width[axis] = (RIM, RIM)
        padded, length = np.pad(values, width, mode="edge"), values.shape[axis]
        shifted = (padded.take(range(k, k + length), axis) for k in range(2 * RIM + 1))
        values = np.maximum.reduce(list(shifted))
    return values


def _pooled(combine: np.ufunc, values: Float32Array, columns: int, rows: int) -> Float32Array:
    """Combine the values (h, w) of the pixels of each cell to an array (rows, columns)."""
    height, width = values.shape
    across = np.arange(columns) * width // columns
    down = np.arange(rows) * height // rows
    return combine.reduceat(combine.reduceat(values, down, axis=0), across, axis=1)


def _around(cells: Float32Array, combine: np.ufunc) -> Float32Array:
    """Combine cell values (rows, columns) around each vertex (rows + 1, columns + 1)."""
    padded = np.pad(cells, 1, mode="edge")
    above = combine(padded[:-1], padded[1:])
    return combine(above[:, :-1], above[:, 1:])
