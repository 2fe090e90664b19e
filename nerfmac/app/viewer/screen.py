"""`Screen` draws the images of a page: whole images while the camera moves, otherwise in strips, so
that the next movement waits for at most one strip. `Pace` decides how large the images are, and
`Flow` limits the number of images on the way to a page.
"""

import time
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from nerfmac.app.viewer.images import Drawn, Images
from nerfmac.app.viewer.live_training import LiveTraining
from nerfmac.app.viewer.pace import BREATH, MAX_BREATH, Drawing, Kind, Pace
from nerfmac.app.viewer.screen_image import ScreenImage, Target
from nerfmac.backend import current_device
from nerfmac.geometry import Camera
from nerfmac.training.state import TrainState

MAX_SIDE = 3840  # Maximum length of the longer side of an image in pixels.


MAX_UNANSWERED = 2  # Maximum number of images that a page has not yet acknowledged.
LOST = 1.0
"""Time in seconds after which one more image is sent to a page that does not acknowledge images,
because a running cell may delay the acknowledgments."""
GONE = 60.0
"""Time in seconds without a message, after which a page that does not acknowledge images counts as
closed, for example because its computer sleeps."""


class Flow:
    """Images that a page has not acknowledged yet."""

    def __init__(self) -> None:
        self._unanswered: deque[int] = deque()
        self._sent, self._heard = 0.0, time.monotonic()  # Last image and last message.
        self._number = 0

    def hear(self) -> None:
        """Record that a message from the page has arrived."""
        self._heard = time.monotonic()

    def acknowledge(self, number: int) -> None:
        """Record that the page has drawn image `number` and all images before it."""
        while self._unanswered and self._unanswered[0] <= number:
            self._unanswered.popleft()

    def send(self) -> int:
        """Record that an image is sent to the page and return its number."""
        self._number += 1
        # A page that does not acknowledge images receives one image at a time.
        while len(self._unanswered) >= MAX_UNANSWERED:
            self._unanswered.popleft()
        self._unanswered.append(self._number)
        self._sent = time.monotonic()
        return self._number

    @property
    def wait(self) -> float:
        """Time in seconds until another image may be sent."""
        if len(self._unanswered) < MAX_UNANSWERED:
            return 0.0
        return max(self._sent + LOST - time.monotonic(), 0.0)

    @property
    def is_gone(self) -> bool:
        """Whether the page counts as closed."""
        is_silent = time.monotonic() > self._heard + GONE
        return is_silent and len(self._unanswered) >= MAX_UNANSWERED


@dataclass
class Job:
    """Image that is drawn strip by strip and is not complete yet."""

    target: Target
    state: TrainState
    is_training: bool
    camera: Camera
    full_size: tuple[int, int]
    scale: float
    images: Images
    drawing: Drawing
    strips: list[Drawn] = field(default_factory=list)
    rows: int = 0  # Number of rows drawn so far.
    seconds: float = 0.0  # Time spent on these rows.


class Screen:
    """Image area of a page. Only the worker thread may use a `Screen`."""

    def __init__(self, training: LiveTraining, pace: Pace, *, warps: bool) -> None:
        self.shown: ScreenImage | None = None
        self.flow = Flow()
        self._shown_state: TrainState | None = None
        self._shown_seconds = 0.0  # Drawing time of the shown image.
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
        if self.shown is None or self.shown.target is not target:
            return Kind.WARPED if self._warps else Kind.MOVING
        state = self.training.run.state
        if self.training.is_running and target.training_camera is None:
            return None if state is self._shown_state else Kind.TRAINED
        # An untrained field is haze. At full resolution, it takes long and shows no additional
        # detail.
        is_done = (self.shown.is_full or state.step == 0) and state is self._shown_state
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
        return self._finish(job)

    def _begin(self, target: Target, kind: Kind) -> Job:
        full_size = width, height = target.full_size(*self._size)
        shown = (self.shown.scale, self._shown_seconds) if self.shown else (0.0, 0.0)
        output, state = target.options.output, self.training.run.state
        scale = self._pace.scale(kind, output, width * height, state.step, shown)
        camera = target.camera(max(round(width * scale), 1), max(round(height * scale), 1))
        images = Images(self.training.run.model, state, target.options, target.subject)
        is_training, drawing = self.training.is_running, Drawing(kind)
        return Job(target, state, is_training, camera, full_size, scale, images, drawing)

    def _finish(self, job: Job) -> ScreenImage:
        drawn = Drawn(*(np.concatenate(parts) for parts in zip(*job.strips, strict=True)))
        if self._warps and current_device() == "cpu":
            self._next = time.monotonic() + min(BREATH * job.seconds, MAX_BREATH)
        shown = job.camera, job.target, job.full_size, job.scale, job.state.step
        self.shown = ScreenImage.of(drawn, *shown, warps=self._warps)
        self._shown_state, self._shown_seconds = job.state, job.seconds
        return self.shown
