"""`Screen` decides the content, size, and time of the next image.

While the camera moves, images are small enough to be drawn in the time `MOVING`. If the page can
warp images, it warps the last image by its depth until the next image arrives, so images may be
larger and take longer (`WARPED`). If the camera does not move, images have full size and are drawn
in strips, so that the next movement waits for at most one strip. After a small image, an image of
half the width and height precedes the full image. The page acknowledges every image. At most two
images are unacknowledged, so that images do not queue up.
"""

import math
import time
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from nerfmac.app.viewer.images import Drawn, Images
from nerfmac.app.viewer.pixel_budget import MAX_SECONDS, PixelBudget
from nerfmac.app.viewer.screen_image import (
    JPEG_QUALITY,
    ScreenImage,
    Target,
    deflated_grid,
    encode_jpeg,
    relative_lens,
)
from nerfmac.backend import current_device
from nerfmac.geometry import Camera
from nerfmac.training.model import Model
from nerfmac.training.state import TrainState

MOVING = 1 / 60  # Allowed time in seconds for an image while the camera moves.
WARPED = 0.15
"""Allowed time in seconds for an image of a page that warps images. Warping an older but larger
image gives a better view than a newer but smaller image."""
REFRESH = 0.11  # Allowed time in seconds for an image during training if the camera does not move.
MAX_KEPT = 0.8
"""Maximum time in seconds for an image during training that is as large as the last image. Images
with the same content become smaller only if they would take longer."""
STRIP = 1 / 30
"""Allowed time in seconds for a strip of an image. Messages are handled between two strips."""
MAX_WARPED = 0.5
"""Maximum time in seconds for an image with an eighth of the pixels, if the page warps images. A
smaller image would be less sharp than the warp of an earlier image."""
BREATH = 0.5
"""Idle time after an image for a page that warps images, as a fraction of the drawing time on a
CPU, because the page and the kernel often share the CPU."""
FIRST_PIXELS = {MOVING: 2**11, WARPED: 2**11, REFRESH: 2**13, STRIP: 2**13}
"""Initial estimate of the number of pixels that can be drawn in each allowed time (the keys). The
estimate is low because an untrained field is haze, and rays have about a hundred times as many
samples in haze."""
HAZE_STEPS = 128
"""Number of training steps during which images have at most `HAZE_PIXELS` pixels. In these steps,
the field changes from transparent to dense haze, so earlier drawing times predict nothing."""
HAZE_PIXELS = 2**14
MIDDLE = 0.5  # Width and height of the intermediate image, relative to the full size.
MAX_UNANSWERED = 2
"""Maximum number of images that have been sent but not yet acknowledged by the page."""
LOST = 1.0
"""Time in seconds after which one more image is sent to a page that does not acknowledge images.

The page may have been closed, or a running cell may delay the acknowledgments. Therefore, the
interval between two images increases up to `MAX_LOST`.
"""
MAX_LOST = 10.0
MAX_SIDE = 3840  # Maximum length of the longer side of an image in pixels.


@dataclass
class _Job:
    """Image that is drawn strip by strip and is not complete yet."""

    target: Target
    state: TrainState
    camera: Camera
    full_size: tuple[int, int]
    scale: float
    images: Images
    budget: PixelBudget | None  # Budget that records the drawing time of the whole image.
    strips: list[Drawn] = field(default_factory=list)
    rows: int = 0  # Number of rows drawn so far.
    seconds: float = 0.0  # Time spent on these rows.


class Screen:
    """Image area of the page. Only the worker thread may use a `Screen`."""

    def __init__(self) -> None:
        self.shown: ScreenImage | None = None
        self._shown_state: TrainState | None = None
        self._shown_seconds = 0.0  # Drawing time of the shown image.
        self._size: tuple[int, int] | None = None
        self._pages: dict[str, bool] = {}  # Names of the ready pages, and whether they are visible.
        self._has_new_page = False
        self._warps = False  # Whether the last opened page warps images.
        self._unanswered: deque[int] = deque()
        # These are values of time.monotonic() for the last image that was sent and the last message
        # that arrived.
        self._sent = self._heard = 0.0
        self._number = 0
        self._next = 0.0  # Earliest time.monotonic() for the next image of a moving camera.
        self._job: _Job | None = None
        self._budgets: dict[tuple[str, float], PixelBudget] = {}  # By output and seconds.

    def resize(self, width: int, height: int) -> None:
        """Set the width and height of the image area in device pixels."""
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
        """Record that a page is ready, and whether it warps images by their depth. Later calls with
        the same name have no effect."""
        if page in self._pages:
            return
        self._pages[page] = True
        self._warps = warps
        self._has_new_page = True
        self._unanswered.clear()
        self.invalidate()

    def see(self, page: str, *, is_visible: bool) -> None:
        """Record whether a page is visible on screen."""
        if page in self._pages:
            self._pages[page] = is_visible

    @property
    def is_visible(self) -> bool:
        """Whether any page is visible on screen."""
        return any(self._pages.values())

    @property
    def is_drawing(self) -> bool:
        """Whether an image is partly drawn."""
        return self._job is not None

    def drop(self) -> None:
        """Discard the image that is being drawn."""
        self._job = None

    def take_new_page(self) -> bool:
        """Return whether a page has been opened since the last call and needs the whole status."""
        has_new, self._has_new_page = self._has_new_page, False
        return has_new

    def acknowledge(self, number: int) -> None:
        """Record that the page has drawn image `number` and all images before it."""
        while self._unanswered and self._unanswered[0] <= number:
            self._unanswered.popleft()

    @property
    def is_open(self) -> bool:
        """Whether a page has ever been opened."""
        return self._size is not None

    @property
    def pause(self) -> float | None:
        """Seconds until another image may be sent to the page, or None if it may be sent now."""
        now = time.monotonic()
        if self._size is None or len(self._unanswered) < MAX_UNANSWERED:
            return self._next - now if now < self._next else None
        return max(self._retry_time() - now, 0.01)

    def wants(self, target: Target, state: TrainState, *, moving: bool, training: bool) -> bool:
        """Return whether there is a new image to draw."""
        if self._size is None or (moving and time.monotonic() < self._next):
            return False
        if len(self._unanswered) >= MAX_UNANSWERED and time.monotonic() < self._retry_time():
            return False
        return self._allowed_seconds(target, state, moving, training) is not None

    def draw(
        self, model: Model, target: Target, state: TrainState, *, moving: bool, training: bool
    ) -> ScreenImage | None:
        """Draw a strip of the next image, and return the image if the strip was the last one."""
        allowed = self._allowed_seconds(target, state, moving, training)
        if allowed is None or self._size is None:
            return None
        job = self._job
        if job is None or job.target is not target or (job.state is not state and not training):
            job = self._job = self._begin(model, target, state, allowed)
        remaining = job.camera.lens.height - job.rows
        if allowed in (MOVING, WARPED):
            # All rows are drawn before messages are handled. If a message moved the camera after
            # each strip, no image would ever be finished.
            self._draw_rows(job, remaining)
        else:
            width, budget = job.camera.lens.width, self._budget(target, STRIP)
            rows = min(budget.rows(width), remaining)
            budget.learn(rows * width, self._draw_rows(job, rows))
        if job.rows < job.camera.lens.height:
            return None
        self._job = None
        return self._finish(job)

    def _retry_time(self) -> float:
        """Return the `time.monotonic()` of the next image for a page that acknowledges none."""
        silence = self._sent - self._heard
        return self._sent + min(max(LOST, 0.2 * silence), MAX_LOST)

    def _allowed_seconds(
        self, target: Target, state: TrainState, moving: bool, training: bool
    ) -> float | None:
        """Return the allowed seconds for the next image, or None if the page is up to date."""
        if self.shown is None or self.shown.target is not target:
            return WARPED if self._warps else MOVING
        if training and target.training_camera is None:
            return None if state is self._shown_state else REFRESH
        # An untrained field is haze. At full resolution, it takes long and shows no additional
        # detail.
        is_done = (self.shown.is_full or state.step == 0) and state is self._shown_state
        return None if is_done or moving else float("inf")

    def _begin(self, model: Model, target: Target, state: TrainState, seconds: float) -> _Job:
        assert self._size is not None
        full_size = width, height = target.full_size(*self._size)
        budget = self._budget(target, seconds) if seconds in FIRST_PIXELS else None
        if budget:
            is_haze = 0 < state.step < HAZE_STEPS
            scale = budget.scale(width * height, HAZE_PIXELS if is_haze else math.inf)
            if seconds == REFRESH and not is_haze and self.shown is not None:
                slower = max(self._shown_seconds / MAX_KEPT, 1.0)
                scale = max(scale, self.shown.scale / math.sqrt(slower))
        else:
            is_small = self.shown is not None and self.shown.scale < MIDDLE
            scale = MIDDLE if is_small else 1.0
        camera = target.camera(max(round(width * scale), 1), max(round(height * scale), 1))
        images = Images(model, state, target.options, target.subject)
        return _Job(target, state, camera, full_size, scale, images, budget)

    def _budget(self, target: Target, seconds: float) -> PixelBudget:
        key = target.options.output, seconds
        if key not in self._budgets:
            max_seconds = MAX_WARPED if seconds == WARPED else MAX_SECONDS
            self._budgets[key] = PixelBudget(
                seconds, FIRST_PIXELS[seconds], max_seconds, is_stable=seconds != REFRESH
            )
        return self._budgets[key]

    def _draw_rows(self, job: _Job, rows: int) -> float:
        """Draw `rows` more rows of the image and return the drawing time in seconds."""
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
        if self._warps and job.target.training_camera is None:  # Training cameras may be distorted.
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
        self._shown_state, self._shown_seconds = job.state, job.seconds
        return self.shown

    def send(self) -> int:
        """Record that an image is sent to the page and return its number."""
        self._number += 1
        # A page that does not acknowledge images receives one image at a time.
        while len(self._unanswered) >= MAX_UNANSWERED:
            self._unanswered.popleft()
        self._unanswered.append(self._number)
        self._sent = time.monotonic()
        return self._number
