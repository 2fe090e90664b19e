"""`Loop` runs a `Session` in slices: it handles messages, and then draws an image or trains.

Any thread may post messages. The worker thread handles all waiting messages before each image, so
that the image shows the latest camera.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from nerfmac.app.viewer.messages import IDLE_INTERVAL, INTERVAL, WATCHED_INTERVAL, Status, handle
from nerfmac.app.viewer.screen_image import JPEG_QUALITY, ScreenImage, Target, encode_jpeg
from nerfmac.app.viewer.session import Message, Session
from nerfmac.app.viewer.worker import Worker
from nerfmac.backend.watchdog import note, retried
from nerfmac.common import InputError
from nerfmac.training.measured import DivergedError

log = logging.getLogger("nerfmac")

SLICE = {True: 0.02, False: 0.1}
"""Training time in seconds between two checks for messages, while the camera moves (True) or
not."""
MAX_TRAINING_SHARE = 0.95
"""Maximum fraction of the device time for training. The remaining time is used for drawing."""
TOUCH = 10.0
"""Time in seconds after a user action during which `Settings.share` divides the device time between
training and drawing."""
WATCHED_SHARE = 0.05
"""Drawing time as a fraction of the training time, while the page is visible but not in use."""
MAX_WAIT = 1.8
"""Maximum training time in seconds between two images, while the page is visible but not in use."""
FIRST_WAIT = 0.6  # The same at the start of training, when images change fastest.
WAIT_GROWTH = 0.2
"""Maximum training time between two images, as a fraction of the training time so far. The product
is clipped to the range from `FIRST_WAIT` to `MAX_WAIT`."""
PATIENCE = 3.0
"""Maximum time in seconds to wait for the first image on a page before images are read and kernels
are compiled."""
UNTOUCHED = ("ack", "ready", "size", "visible", "train", "pause")
"""Kinds of messages that do not count as user actions in the view."""
KEPT_SIZE = 320, 240
"""Maximum width and height in pixels of the image that is stored in the notebook if no page has
been opened."""
MEMORY = 1.0  # Time constant, in seconds of device time, of the exponential decay in `DeviceTime`.


class DeviceTime:
    """Exponentially decaying sums of the device time in seconds for training and for viewing."""

    def __init__(self) -> None:
        self._training = self._viewing = 0.0

    def spend(self, seconds: float, *, training: bool) -> None:
        """Record device time in seconds for training or for viewing."""
        kept = math.exp(-seconds / MEMORY)
        gained = MEMORY * (1.0 - kept)
        self._training = kept * self._training + (gained if training else 0.0)
        self._viewing = kept * self._viewing + (0.0 if training else gained)

    def viewing_is_due(self, training_share: float) -> bool:
        """Return whether viewing has recently used at most 1 - `training_share` of the time."""
        return self._viewing <= (1.0 - training_share) * (self._training + self._viewing)


class WatchedTime:
    """Time budget in seconds for drawing images while the page is visible but not in use."""

    def __init__(self) -> None:
        self._left = 0.0

    def reset(self) -> None:
        """Make the next image due now."""
        self._left = 0.0

    def train(self, seconds: float) -> None:
        """Record training time in seconds, and increase the budget by `WATCHED_SHARE` of the time,
        up to `WATCHED_SHARE` * `MAX_WAIT` seconds."""
        self._left = min(self._left + WATCHED_SHARE * seconds, WATCHED_SHARE * MAX_WAIT)

    def draw(self, seconds: float, trained: float) -> None:
        """Record drawing time in seconds after `trained` seconds of training, and reduce the
        budget. The deficit is limited, so that even a slow image delays the next image only for a
        limited time."""
        wait = min(max(FIRST_WAIT, WAIT_GROWTH * trained), MAX_WAIT)
        self._left = max(self._left - seconds, -WATCHED_SHARE * wait)

    @property
    def is_left(self) -> bool:
        """Whether an image is due."""
        return self._left >= 0.0


class Loop:
    """Activity that runs a session on the worker thread. Any thread may call `post`."""

    def __init__(self, worker: Worker, session: Session, keep: Callable[[bytes], None]) -> None:
        """Create a loop. `keep` stores a finished JPEG image for pages without a kernel."""
        self._worker, self._session, self._keep = worker, session, keep
        self._messages: deque[Message] = deque()
        self._status = Status(session)
        self._device_time = DeviceTime()
        self._watched_time = WatchedTime()
        self._begun = time.monotonic()
        self._undrawable: Target | None = None  # Last content that could not be drawn.
        self._unkept: bytes | None = None  # Last finished image until it is stored.
        self._asked: float | None = None  # `t` of the latest message that no image has answered.
        self._touched = -math.inf  # time.monotonic() of the last user action on the page.

    def post(self, message: Message) -> None:
        """Queue `message` and wake the worker."""
        self._messages.append(message)
        self._worker.wake(self)

    def work(self) -> float | None:
        """Handle the messages, and then draw some rows of an image or train (see `Activity`)."""
        self._listen()
        training = self._session.training
        is_moving = time.monotonic() < self._session.moving_until
        wants = self._wants_image(is_moving)
        is_preparing = training.is_preparing and self._has_shown
        is_measuring = self._session.measured is not None
        is_exporting = self._session.export is not None
        is_sending = self._session.photos is not None
        is_busy = any((training.is_running, is_preparing, is_measuring, is_exporting, is_sending))
        if wants and (not training.is_running or self._viewing_is_due(is_moving)):
            self._draw(is_moving)
        elif is_sending:
            self._send_photos()
        elif is_exporting:
            self._attempt(partial(self._session.run_export, self._breathe))
        elif is_measuring:
            self._attempt(self._session.measure_view)
        elif training.is_running:
            self._train(is_moving)
        elif is_preparing:
            self._prepare()
        if wants or is_busy:
            self._status.tell(self._interval)
            return 0.0
        self._attempt(self._rest)
        return self._pause(is_moving)

    def _listen(self) -> None:
        while self._messages:
            self._attempt(partial(self._take, self._messages.popleft()))
        if self._session.screen.take_new_page():
            self._attempt(self._status.introduce)

    def _breathe(self) -> None:
        """Handle the messages, and draw some rows of an image, between two steps of an export."""
        self._listen()
        is_moving = time.monotonic() < self._session.moving_until
        if self._wants_image(is_moving):
            self._draw(is_moving)
        self._status.tell()

    def _take(self, message: Message) -> None:
        self._session.screen.hear()
        if message.get("kind") not in UNTOUCHED:
            self._touched = time.monotonic()
        if isinstance(asked := message.get("t"), int | float):
            self._asked = float(asked)
        was_running = self._session.training.is_running
        handle(self._session, message)
        if self._session.training.is_running != was_running:
            self._watched_time.reset()

    def _wants_image(self, is_moving: bool) -> bool:
        session, target = self._session, self._session.target()
        return target is not self._undrawable and session.screen.wants(
            target, session.run.state, moving=is_moving, training=session.training.is_running
        )

    @property
    def _is_touched(self) -> bool:
        return time.monotonic() <= self._touched + TOUCH

    @property
    def _has_shown(self) -> bool:
        """Whether the preparation of training may start."""
        return self._session.screen.shown is not None or time.monotonic() > self._begun + PATIENCE

    @property
    def _interval(self) -> float:
        """Minimum time in seconds between two state messages."""
        if self._is_touched:
            return INTERVAL
        return WATCHED_INTERVAL if self._session.screen.is_visible else IDLE_INTERVAL

    def _viewing_is_due(self, is_moving: bool) -> bool:
        screen = self._session.screen
        if not screen.is_visible:
            return False
        if screen.shown is None:
            return True
        if screen.shown.target is self._session.target() and not self._is_touched:
            return self._watched_time.is_left or screen.is_drawing
        share = min(self._session.settings.share, MAX_TRAINING_SHARE)
        return self._device_time.viewing_is_due(0.5 * share if is_moving else share)

    def _draw(self, is_moving: bool) -> None:
        start, target = time.perf_counter(), self._session.target()
        draw = partial(self._draw_rows, target, is_moving)
        if self._attempt(lambda: retried(draw, on_failure=self._session.screen.invalidate)):
            self._undrawable = target
        seconds = time.perf_counter() - start
        self._device_time.spend(seconds, training=False)
        self._watched_time.draw(seconds, self._session.run.state.train_seconds)

    def _draw_rows(self, target: Target, is_moving: bool) -> None:
        session = self._session
        image = session.screen.draw(
            session.run.model,
            target,
            session.run.state,
            moving=is_moving,
            training=session.training.is_running,
        )
        if image is not None:
            self._send(image)

    def _send(self, image: ScreenImage) -> None:
        session, comparison = self._session, self._session.comparison
        if image.message["still"]:
            self._unkept = image.jpeg
        is_measured = comparison and image.is_full and session.settings.mode == "color"
        answer = {
            "id": session.screen.send(),
            "t": self._asked,
            "view": image.target.view.to_json(),
            "version": session.version,
            "mover": session.mover,
            "compared": comparison.index if comparison else None,
            "psnr": comparison.psnr(image.drawn.rgb) if comparison and is_measured else None,
        }
        self._asked = None
        session.send({**image.message, **answer}, image.buffers)

    def _train(self, is_moving: bool) -> None:
        start, session = time.perf_counter(), self._session
        session.failure = self._attempt(lambda: session.training.work(SLICE[is_moving]))
        seconds = time.perf_counter() - start
        self._device_time.spend(seconds, training=True)
        self._watched_time.train(seconds)

    def _send_photos(self) -> None:
        if self._attempt(self._session.send_photos):
            self._session.photos = None

    def _prepare(self) -> None:
        session = self._session
        if error := self._attempt(session.training.prepare):
            session.failure = error

    def _rest(self) -> None:
        """Store the last image for pages without a kernel if nothing remains to draw or train."""
        session = self._session
        if not session.is_resting.is_set() and not session.screen.is_open:
            camera = session.target().camera(*session.target().full_size(*KEPT_SIZE))
            drawn = session.images().draw(camera, session.view.distance)
            self._unkept = encode_jpeg(drawn.rgb, JPEG_QUALITY[True])
        if self._unkept is not None:
            self._keep(self._unkept)
            self._unkept = None
        session.is_resting.set()

    def _pause(self, is_moving: bool) -> float | None:
        """Return the seconds until the next call of `work`, or None to wait for a message."""
        session = self._session
        held = session.moving_until - time.monotonic() if is_moving else None
        video = INTERVAL if session.path_editor.is_rendering else None
        pauses = (self._status.tell(), session.screen.pause, held, video)
        return min((max(pause, 0.0) for pause in pauses if pause is not None), default=None)

    def _attempt(self, action: Callable[[], None]) -> Exception | None:
        """Run `action`. Show an exception on the page and return it."""
        try:
            action()
        except (InputError, DivergedError, OSError) as error:
            self._session.notice = str(error)
            return error
        except Exception as error:
            note(error)
            log.exception("exception in the viewer")
            self._session.notice = f"{type(error).__name__}: {error}"
            return error
        return None
