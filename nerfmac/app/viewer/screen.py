"""`Screen` draws the images of a page: whole images while the camera moves, otherwise in strips, so
that the next movement waits for at most one strip. `Pace` decides how large the images are, and
`Flow` limits the number of images on the way to a page.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.export import encode_jpeg
from nerfmac.app.paths import View
from nerfmac.app.viewer.depth_grid import deflated_grid
from nerfmac.app.viewer.images import Drawn, Images
from nerfmac.app.viewer.live_training import LiveTraining
from nerfmac.app.viewer.pace import BREATH, MAX_BREATH, Drawing, Kind, Pace
from nerfmac.backend import current_device
from nerfmac.common import Float64Array
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry import Camera, Lens, Sphere
from nerfmac.training.state import TrainState

MAX_SIDE = 3840  # Maximum length of the longer side of an image in pixels.
JPEG_QUALITY = {True: 90, False: 80}
"""JPEG quality of full images (True) and of smaller images (False)."""
MIN_MESSAGE = 2**16
"""Minimum size in bytes of a message with an image. Shorter messages are padded.

Jupyter Server uses Nagle's algorithm: data that does not fill a TCP segment waits 40 ms for the
delayed acknowledgment. TCP segments on the loopback interface are slightly shorter than
`MIN_MESSAGE`.
"""
PICK_RADIUS = 2  # Radius in pixels around a click, so that a click can hit thin objects.
MAX_UNANSWERED = 2  # Maximum number of images that a page has not yet acknowledged.
LOST = 1.0
"""Time in seconds after which one more image is sent to a page that does not acknowledge images,
because a running cell may delay the acknowledgments."""
GONE = 60.0
"""Time in seconds without a message, after which a page that does not acknowledge images counts as
closed, for example because its computer sleeps."""


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


@dataclass
class Job:
    """Image that is drawn strip by strip."""

    target: Target
    state: TrainState
    is_training: bool
    camera: Camera
    full_size: tuple[int, int]
    scale: float  # Width and height relative to the full image, before rounding.
    images: Images
    drawing: Drawing
    strips: list[Drawn] = field(default_factory=list)
    rows: int = 0  # Number of rows drawn so far.
    seconds: float = 0.0  # Time spent on these rows.


class ScreenImage(NamedTuple):
    """Finished image for the page."""

    job: Job
    drawn: Drawn
    # The page adds the number of the image, `t`, and the comparison before sending.
    message: dict[str, Any]
    jpeg: bytes
    grid: bytes  # Deflated codes of the depth grid, or empty if the page cannot warp the image.

    @classmethod
    def of(cls, job: Job, *, warps: bool) -> ScreenImage:
        """Encode the image of a job whose strips are drawn. If the page warps images, the image has
        a depth grid, unless its camera is a training camera, which may be distorted."""
        drawn = Drawn(*(np.concatenate(parts) for parts in zip(*job.strips, strict=True)))
        job.strips.clear()
        grid, depth, is_full = b"", None, job.scale == 1.0
        if warps and job.target.training_camera is None:
            grid, depth = deflated_grid(drawn.depth * drawn.is_surface, *job.full_size)
        width, height = job.full_size
        message = {
            "kind": "frame",
            "width": width,
            "height": height,
            "pose": [float(number) for number in job.camera.pose.ravel()],
            "lens": relative_lens(job.camera.lens),
            "still": is_full or job.state.step == 0,
            "scale": job.camera.lens.width / width,
            "step": job.state.step,
            "depth": depth,
        }
        return cls(job, drawn, message, encode_jpeg(drawn.rgb, JPEG_QUALITY[is_full]), grid)

    @property
    def is_full(self) -> bool:
        """Whether the image has full size."""
        return self.job.scale == 1.0

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
        camera = self.job.camera
        lens, pose = camera.lens, camera.pose.astype(np.float64)
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


class Flow:
    """Images that a page has not acknowledged yet."""

    def __init__(self) -> None:
        self._number = self._answered = 0  # Last image, and last image that does not count anymore.
        self._sent, self._heard = 0.0, time.monotonic()  # Last image and last message.

    def hear(self) -> None:
        """Record that a message from the page has arrived."""
        self._heard = time.monotonic()

    def acknowledge(self, number: int) -> None:
        """Record that the page has drawn image `number` and all images before it."""
        self._answered = max(self._answered, min(number, self._number))

    def send(self) -> int:
        """Record that an image is sent to the page and return its number."""
        self._number += 1
        # A page that does not acknowledge images receives one image at a time.
        self._answered = max(self._answered, self._number - MAX_UNANSWERED)
        self._sent = time.monotonic()
        return self._number

    @property
    def wait(self) -> float:
        """Time in seconds until another image may be sent."""
        return max(self._sent + LOST - time.monotonic(), 0.0) if self._is_full else 0.0

    @property
    def is_gone(self) -> bool:
        """Whether the page counts as closed."""
        return self._is_full and time.monotonic() > self._heard + GONE

    @property
    def _is_full(self) -> bool:
        return self._number - self._answered >= MAX_UNANSWERED


class Screen:
    """Image area of a page. Only the worker thread may use a `Screen`."""

    def __init__(self, training: LiveTraining, pace: Pace, *, warps: bool) -> None:
        self.shown: ScreenImage | None = None
        self.flow = Flow()
        self._size = 1, 1
        self.training, self._pace, self._warps = training, pace, warps
        self._next = 0.0  # Earliest time.monotonic() for the next image of a moving camera.
        self.job: Job | None = None  # Image that is partly drawn.

    def resize(self, width: int, height: int) -> None:
        """Set the width and height of the image area in device pixels."""
        factor = min(1.0, MAX_SIDE / max(width, height, 1))
        self._size = max(int(width * factor), 1), max(int(height * factor), 1)
        self.invalidate()

    def invalidate(self) -> None:
        """Forget the shown image, so that it is drawn again."""
        self.shown = self.job = None

    @property
    def pause(self) -> float:
        """Seconds until another image may be sent to the page."""
        return max(self.flow.wait, self._next - time.monotonic())

    def kind(self, target: Target, *, moving: bool) -> Kind | None:
        """Return why the next image must be drawn, or None if the page is up to date or must not
        receive an image yet."""
        if self.flow.wait > 0.0 or (moving and time.monotonic() < self._next):
            return None
        if self.shown is None or self.shown.job.target is not target:
            return Kind.WARPED if self._warps else Kind.MOVING
        state = self.training.run.state
        is_current = state is self.shown.job.state
        if self.training.is_running and target.training_camera is None:
            return None if is_current else Kind.TRAINED
        # An untrained field is haze. At full resolution, it takes long and shows no additional
        # detail.
        is_done = (self.shown.is_full or state.step == 0) and is_current
        return None if is_done or moving else Kind.RESTING

    def draw(self, target: Target, kind: Kind) -> ScreenImage | None:
        """Draw a strip of the next image, and return the image if the strip was the last one."""
        job, pace, is_training = self.job, self._pace, self.training.is_running
        is_old = job is None or job.target is not target or job.is_training != is_training
        if job is None or is_old or (job.state is not self.training.run.state and not is_training):
            job = self.job = self._begin(target, kind)
        width, output = job.camera.lens.width, target.options.output
        rows = pace.rows(job.drawing, output, width, job.camera.lens.height - job.rows)
        start = time.perf_counter()
        strip = replace(job.camera, lens=job.camera.lens.rows(job.rows, rows))
        job.strips.append(job.images.draw(strip, target.view.distance))
        seconds = time.perf_counter() - start
        job.rows += rows
        job.seconds += seconds
        pace.drawn(job.drawing, output, rows * width, seconds, training=is_training)
        if job.rows < job.camera.lens.height:
            return None
        self.job = None
        if self._warps and current_device() == "cpu":
            self._next = time.monotonic() + min(BREATH * job.seconds, MAX_BREATH)
        self.shown = ScreenImage.of(job, warps=self._warps)
        return self.shown

    def _begin(self, target: Target, kind: Kind) -> Job:
        full_size = width, height = target.full_size(*self._size)
        shown = (self.shown.job.scale, self.shown.job.seconds) if self.shown else (0.0, 0.0)
        output, state = target.options.output, self.training.run.state
        scale = self._pace.scale(kind, output, width * height, state.step, shown)
        camera = target.camera(max(round(width * scale), 1), max(round(height * scale), 1))
        images = Images(self.training.run.model, state, target.options, target.subject)
        is_training, drawing = self.training.is_running, Drawing(kind)
        return Job(target, state, is_training, camera, full_size, scale, images, drawing)
