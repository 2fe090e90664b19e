"""Images that are sent to the page: content, message, buffers, and JPEG encoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.paths.view import View
from nerfmac.app.video import RenderOptions
from nerfmac.app.viewer.images import Drawn
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

JPEG_QUALITY = {True: 90, False: 80}
"""JPEG quality of full images (True) and of smaller images (False)."""
MIN_MESSAGE = 2**16
"""Minimum size in bytes of a message with an image. Shorter messages are padded.

Jupyter Server uses Nagle's algorithm: data that does not fill a TCP segment waits 40 ms for the
delayed acknowledgment. TCP segments on the loopback interface are slightly shorter than
`MIN_MESSAGE`.
"""
PICK_RADIUS = 2
"""Radius in pixels around a click. All depths within this radius are used, so that a click can hit
thin objects."""


@dataclass(frozen=True, eq=False)
class Target:
    """Content of an image. Every change of the content creates a new `Target`, so targets are
    compared by identity."""

    view: View
    options: RenderOptions
    training_camera: Camera | None = None  # Camera of the view in a comparison with its photo.
    subject: Sphere | None = None  # Sphere around the subject of the scene.

    def camera(self, width: int, height: int) -> Camera:
        """Return the camera of an image of `width` x `height` pixels."""
        if self.training_camera is not None:
            lens = self.training_camera.lens.scaled(width, height)
            return replace(self.training_camera, lens=lens)
        return self.view.camera(width, height)

    def full_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height in pixels of the full image in an area of `width` x `height`
        device pixels.

        An image that is compared with a photo has the aspect ratio of the photo and is at most as
        large.
        """
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

    def point_at(self, x: float, y: float, otherwise: float) -> npt.NDArray[np.float64]:
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


def encode_jpeg(rgb: np.ndarray, quality: int) -> bytes:
    """Encode pixels, uint8 (h, w, 3), as JPEG with a quality from 1 to 95."""
    buffer = BytesIO()
    Image.fromarray(rgb).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
