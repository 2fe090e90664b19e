"""`Screen`: decides which image the page gets next, its size, and when; worker's thread only.

While the camera moves, images are small enough to be drawn in time. A page that can warp moves
the last image by its depth meanwhile; it gets larger images, which may take longer. At rest
images have full size and are drawn in strips, so that the next movement waits for at most one
strip. After a small image, one of half the width and height comes before the full one. The page
acknowledges every image, and at most two are unacknowledged. So the newest camera is drawn, and
old ones never queue up.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.paths.view import View
from nerfmac.app.video import RenderOptions
from nerfmac.app.viewer.depth_grid import deflated_grid
from nerfmac.app.viewer.images import Drawn, Images
from nerfmac.app.viewer.pixel_budget import MAX_SECONDS, PixelBudget
from nerfmac.backend import current_device
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

MOVING = 1 / 60
"""Seconds allowed for a image while the camera moves."""

WARPED = 0.15
"""The same if the page warps: an older but larger image comes closer to the true view."""

REFRESH = 0.15
"""Seconds allowed for an image during training, with the camera at rest."""

STRIP = 1 / 30
"""Seconds allowed for a strip of a image, after which messages are handled again."""

MOST_WARPED = 0.5
"""Seconds up to which it keeps an eighth of the pixels: the page has a sharper one to warp."""

BREATH = 0.5
"""Seconds left to a page that warps, per second of a image drawn on the CPU: page and kernel
often share one."""

FIRST_PIXELS = {MOVING: 2**11, WARPED: 2**11, REFRESH: 2**13, STRIP: 2**13}
"""First guess of the pixels that fit in each of these times. It is low: an untrained field is haze,
whose rays have a hundred times the samples of a trained one's."""

MIDDLE = 0.5
"""Scale of the intermediate image at rest; the full one takes four times as long."""

MAX_UNANSWERED = 2
"""Largest number of images that the page has not acknowledged."""

LOST = 1.0
"""Seconds of silence after which the page gets one more image.

The page may be gone, or a running cell may delay its answers. So the interval between such
images grows, up to `MAX_LOST`.
"""

MAX_LOST = 10.0
"""Longest interval between images for a silent page, in seconds."""

MAX_SIDE = 3840
"""Largest length of a image's longer side, in pixels."""

JPEG_QUALITY = {True: 90, False: 80}
"""JPEG quality of full images (True) and smaller ones (False)."""

MIN_MESSAGE = 2**16
"""Smallest size of a message with a image, in bytes; shorter ones are padded.

Jupyter's server uses Nagle's algorithm: data that does not fill a TCP segment waits 40 ms for the
other side's delayed acknowledgement. The loopback's segments are slightly shorter than this.
"""

PICK_RADIUS = 2
"""Pixels to each side of a click whose depths count too, so a click may miss a thin object."""


@dataclass(frozen=True, eq=False)
class Target:
    """Content that the page should show. A change of any part makes a new `Target`."""

    view: View
    options: RenderOptions
    training_camera: Camera | None = None  # the view is this camera's, beside its photo

    def camera(self, width: int, height: int) -> Camera:
        """The camera of a image of that size."""
        if self.training_camera is not None:
            lens = self.training_camera.lens.scaled(width, height)
            return replace(self.training_camera, lens=lens)
        return self.view.camera(width, height)

    def full_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of the full image in an area of `width` x `height`.

        During a comparison the image has the photo's aspect ratio, and at most its size.
        """
        if self.training_camera is None:
            return width, height
        lens = self.training_camera.lens
        factor = min(width / lens.width, height / lens.height, 1.0)
        return max(round(lens.width * factor), 1), max(round(lens.height * factor), 1)


class ScreenImage(NamedTuple):
    """A finished image for the page."""

    message: dict[str, Any]  # its number, `t` and a comparison are added on sending
    jpeg: bytes
    grid: bytes  # codes of its depth, deflated; empty: the page cannot warp it
    drawn: Drawn
    camera: Camera
    target: Target
    scale: float  # its width and height relative to the full image's, before rounding

    @property
    def is_full(self) -> bool:
        """Whether the image has full size."""
        return self.scale == 1.0

    @property
    def buffers(self) -> list[bytes]:
        """What follows the message: JPEG, grid if there is one, and padding to `MIN_MESSAGE`."""
        buffers = [self.jpeg, self.grid] if self.grid else [self.jpeg]
        missing = MIN_MESSAGE - sum(map(len, buffers))
        return [*buffers, bytes(missing)] if missing > 0 else buffers

    def point_at(self, x: float, y: float, otherwise: float) -> npt.NDArray[np.float64]:
        """The scene position (3,) seen at (x, y) in [0, 1] from the top left corner.

        Where nothing is seen, the point is at the distance `otherwise`. Distortion is ignored.
        """
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


@dataclass
class _Job:
    """A image that is being drawn, strip by strip."""

    target: Target
    state: TrainState
    camera: Camera
    full_size: tuple[int, int]
    scale: float
    images: Images
    budget: PixelBudget | None  # learns the time of the whole image
    strips: list[Drawn] = field(default_factory=list)
    rows: int = 0  # drawn so far
    seconds: float = 0.0  # spent on them


class Screen:
    """The page's image area."""

    def __init__(self) -> None:
        self.shown: ScreenImage | None = None
        self._shown_state: TrainState | None = None
        self._size: tuple[int, int] | None = None
        self._pages: dict[str, bool] = {}  # names of the ready views, and which are visible
        self._has_new_page = False
        self._warps = False  # whether the page that opened last moves images by their depth
        self._unanswered: deque[int] = deque()
        self._sent = self._heard = 0.0  # time.monotonic()
        self._number = 0
        self._next = 0.0  # time.monotonic() before which a page that warps draws by itself
        self._job: _Job | None = None
        self._budgets: dict[tuple[str, float], PixelBudget] = {}  # by output and seconds

    def resize(self, width: int, height: int) -> None:
        """Set the area's size in device pixels."""
        factor = min(1.0, MAX_SIDE / max(width, height, 1))
        self._size = max(int(width * factor), 1), max(int(height * factor), 1)
        self.invalidate()

    def invalidate(self) -> None:
        """Forget the shown image, so that it is drawn again."""
        self.shown = self._job = None

    def hear(self) -> None:
        """Record that a message from the page has arrived."""
        self._heard = time.monotonic()

    def open(self, page: str, *, warps: bool) -> None:
        """Record that the `page` is ready; later calls with the same name change nothing."""
        if page in self._pages:
            return
        self._pages[page] = True
        self._warps = warps
        self._has_new_page = True
        self._unanswered.clear()
        self.invalidate()

    def see(self, page: str, *, is_visible: bool) -> None:
        """Record whether a page's view is on screen."""
        if page in self._pages:
            self._pages[page] = is_visible

    @property
    def is_visible(self) -> bool:
        """Whether any view is on screen."""
        return any(self._pages.values())

    @property
    def is_drawing(self) -> bool:
        """Whether an image is partly drawn."""
        return self._job is not None

    def drop(self) -> None:
        """Give up the image that is being drawn."""
        self._job = None

    def take_new_page(self) -> bool:
        """Whether a page has opened since the last call; such a page needs the whole status."""
        has_new, self._has_new_page = self._has_new_page, False
        return has_new

    def acknowledge(self, number: int) -> None:
        """Record that the page has drawn image `number` and those before it."""
        while self._unanswered and self._unanswered[0] <= number:
            self._unanswered.popleft()

    @property
    def is_open(self) -> bool:
        """Whether a page has ever been open."""
        return self._size is not None

    @property
    def pause(self) -> float | None:
        """Seconds until the page may get another image; None: at once, or when it answers."""
        now = time.monotonic()
        if self._size is None or len(self._unanswered) < MAX_UNANSWERED:
            return self._next - now if now < self._next else None
        return max(self._retry_time() - now, 0.01)

    def wants(self, target: Target, state: TrainState, *, moving: bool, training: bool) -> bool:
        """Whether there is a new image to draw, and a page to see it."""
        if self._size is None or (moving and time.monotonic() < self._next):
            return False
        if len(self._unanswered) >= MAX_UNANSWERED and time.monotonic() < self._retry_time():
            return False
        return self._allowed_seconds(target, state, moving, training) is not None

    def draw(
        self, trainer: Trainer, target: Target, state: TrainState, *, moving: bool, training: bool
    ) -> ScreenImage | None:
        """Draw a strip; return the image if this was the last one."""
        allowed = self._allowed_seconds(target, state, moving, training)
        if allowed is None or self._size is None:
            return None
        job = self._job
        if job is None or job.target is not target or (job.state is not state and not training):
            job = self._job = self._begin(trainer, target, state, allowed)
        left = job.camera.lens.height - job.rows
        if allowed in (MOVING, WARPED):
            # Messages wait until the image is whole, or none would ever be finished.
            self._draw_rows(job, left)
        else:
            width, budget = job.camera.lens.width, self._budget(target, STRIP)
            rows = min(budget.rows(width), left)
            budget.learn(rows * width, self._draw_rows(job, rows))
        if job.rows < job.camera.lens.height:
            return None
        self._job = None
        return self._finish(job)

    def _retry_time(self) -> float:
        """The `time.monotonic()` at which a silent page gets another image."""
        silence = self._sent - self._heard
        return self._sent + min(max(LOST, 0.2 * silence), MAX_LOST)

    def _allowed_seconds(
        self, target: Target, state: TrainState, moving: bool, training: bool
    ) -> float | None:
        """Seconds for the next image; None if there is nothing new to see."""
        if self.shown is None or self.shown.target is not target:
            return WARPED if self._warps else MOVING
        if training:
            return None if state is self._shown_state else REFRESH
        # An untrained field is haze: at full resolution it takes long and shows no more.
        is_done = (self.shown.is_full or state.step == 0) and state is self._shown_state
        return None if is_done or moving else float("inf")

    def _begin(self, trainer: Trainer, target: Target, state: TrainState, seconds: float) -> _Job:
        assert self._size is not None
        full_size = width, height = target.full_size(*self._size)
        budget = self._budget(target, seconds) if seconds in FIRST_PIXELS else None
        if budget:
            scale = budget.scale(width * height)
        else:
            is_small = self.shown is not None and self.shown.scale < MIDDLE
            scale = MIDDLE if is_small else 1.0
        camera = target.camera(max(round(width * scale), 1), max(round(height * scale), 1))
        images = Images(trainer, state, target.options)
        return _Job(target, state, camera, full_size, scale, images, budget)

    def _budget(self, target: Target, seconds: float) -> PixelBudget:
        key = target.options.output, seconds
        if key not in self._budgets:
            most = MOST_WARPED if seconds == WARPED else MAX_SECONDS
            self._budgets[key] = PixelBudget(seconds, FIRST_PIXELS[seconds], most)
        return self._budgets[key]

    def _draw_rows(self, job: _Job, rows: int) -> float:
        """Draw `rows` more rows of the image; return the seconds that this took."""
        start = time.perf_counter()
        strip = replace(job.camera, lens=job.camera.lens.rows(job.rows, rows))
        job.strips.append(job.images.draw(strip, job.target.view.distance))
        seconds = time.perf_counter() - start
        job.seconds += seconds
        job.rows += rows
        return seconds

    def _finish(self, job: _Job) -> ScreenImage:
        drawn = Drawn(*(np.concatenate(parts) for parts in zip(*job.strips, strict=True)))
        lens, is_full = job.camera.lens, job.scale == 1.0
        if self._warps and current_device() == "cpu":
            self._next = time.monotonic() + BREATH * min(job.seconds, WARPED)
        if job.budget:
            job.budget.learn(lens.width * lens.height, job.seconds)
        grid, depth = b"", None
        if self._warps and job.target.training_camera is None:  # else it may be distorted
            grid, depth = deflated_grid(drawn.depth * drawn.is_surface, *job.full_size)
        message = {
            "kind": "frame",
            "width": job.full_size[0],
            "height": job.full_size[1],
            "pose": [float(number) for number in job.camera.pose.ravel()],
            "lens": relative_lens(lens),
            "still": is_full or job.state.step == 0,
            "scale": lens.width / job.full_size[0],
            "step": job.state.step,
            "depth": depth,
        }
        jpeg = encode_jpeg(drawn.rgb, JPEG_QUALITY[is_full])
        self.shown = ScreenImage(message, jpeg, grid, drawn, job.camera, job.target, job.scale)
        self._shown_state = job.state
        return self.shown

    def send(self) -> int:
        """Record that a image is sent to the page; return its number."""
        self._number += 1
        # A page that does not answer gets one image at a time.
        while len(self._unanswered) >= MAX_UNANSWERED:
            self._unanswered.popleft()
        self._unanswered.append(self._number)
        self._sent = time.monotonic()
        return self._number


def relative_lens(lens: Lens) -> list[float]:
    """Focal lengths and principal point in units of the image's width and height."""
    width, height = lens.width, lens.height
    return [lens.fl_x / width, lens.fl_y / height, lens.cx / width, lens.cy / height]


def encode_jpeg(rgb: np.ndarray, quality: int) -> bytes:
    """uint8 (h, w, 3) as JPEG of `quality` in 1..95."""
    buffer = BytesIO()
    Image.fromarray(rgb).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
