"""`Loop`: runs a `Session` in slices of work: messages first, then a image or training.

Any thread may post messages. The worker's thread handles them in order, and trains and draws. It
handles all waiting messages before the next image, so the page always sees the newest camera.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from nerfmac.app.viewer.messages import handle
from nerfmac.app.viewer.screen import JPEG_QUALITY, ScreenImage, Target, encode_jpeg
from nerfmac.app.viewer.session import Message, Session
from nerfmac.app.viewer.status import IDLE_INTERVAL, INTERVAL, WATCHED_INTERVAL, Status
from nerfmac.app.viewer.worker import Worker
from nerfmac.backend.watchdog import retried
from nerfmac.common.checks import InputError
from nerfmac.training.measured import DivergedError

log = logging.getLogger("nerfmac")

SLICE = {True: 0.02, False: 0.1}
"""Seconds of training between checks for messages, while the camera moves (True) and at rest."""

MAX_TRAINING_SHARE = 0.95
"""Largest share of the device's time for training, so that images still come now and then."""

TOUCH = 10.0
"""Seconds after a user's action during which images get the share that the user chose."""

WATCHED_SHARE = 0.08
"""Share of the training time for images of a page that is on screen and that no one touches."""

LONGEST_WAIT = 1.8
"""Longest training time between two such images, in seconds, however long the last one took."""

PATIENCE = 3.0
"""Seconds that preparing for training waits for a page to show its first image."""

UNTOUCHED = ("ack", "ready", "size", "visible", "train", "pause")
"""Kinds of messages after which no one may be looking around."""

KEPT_SIZE = 320, 240
"""Largest width and height of the image that is kept if no page was open."""

MEMORY = 1.0
"""Time constant, in seconds of work, with which `DeviceTime` forgets earlier work."""


class DeviceTime:
    """Recent seconds spent on training and on viewing, as sums that decay exponentially."""

    def __init__(self) -> None:
        self._training = self._viewing = 0.0

    def spend(self, seconds: float, *, training: bool) -> None:
        """Count `seconds` of training, or else of viewing."""
        kept = math.exp(-seconds / MEMORY)
        gained = MEMORY * (1.0 - kept)
        self._training = kept * self._training + (gained if training else 0.0)
        self._viewing = kept * self._viewing + (0.0 if training else gained)

    def viewing_is_due(self, training_share: float) -> bool:
        """Whether viewing has had at most the fraction 1 - `training_share` of the recent time."""
        return self._viewing <= (1.0 - training_share) * (self._training + self._viewing)


class WatchedTime:
    """Training time that images of an untouched page may still take, in seconds."""

    def __init__(self) -> None:
        self._left = 0.0

    def reset(self) -> None:
        """Make an image due."""
        self._left = 0.0

    def train(self, seconds: float) -> None:
        """Count `seconds` of training. At most one image is saved up."""
        self._left = min(self._left + WATCHED_SHARE * seconds, WATCHED_SHARE * LONGEST_WAIT)

    def draw(self, seconds: float) -> None:
        """Count `seconds` of drawing. After a slow image the next one is due all the same."""
        self._left = max(self._left - seconds, -WATCHED_SHARE * LONGEST_WAIT)

    @property
    def is_left(self) -> bool:
        """Whether an image is due."""
        return self._left >= 0.0


class Loop:
    """Runs one session, as an `Activity` of the worker. Any thread may call `post`."""

    def __init__(self, worker: Worker, session: Session, keep: Callable[[bytes], None]) -> None:
        """`keep(jpeg)` stores a finished image for pages without a kernel."""
        self._worker, self._session, self._keep = worker, session, keep
        self._messages: deque[Message] = deque()
        self._status = Status(session)
        self._device_time = DeviceTime()
        self._watched_time = WatchedTime()
        self._begun = time.monotonic()
        self._undrawable: Target | None = None  # drawing it has failed, so it is not tried again
        self._unkept: bytes | None = None  # the last finished image, until it is kept
        self._asked: float | None = None  # the newest `t` that no image has answered
        self._touched = -math.inf  # time.monotonic() of the user's last action on the page

    def post(self, message: Message) -> None:
        """Queue `message` and wake the worker."""
        self._messages.append(message)
        self._worker.wake(self)

    def work(self) -> float | None:
        """Handle the messages, then draw some rows or train for a moment; see `Activity`."""
        while self._messages:
            self._attempt(partial(self._take, self._messages.popleft()))
        if self._session.screen.take_new_page():
            self._attempt(self._status.introduce)
        training = self._session.training
        is_moving = time.monotonic() < self._session.moving_until
        wants = self._wants_image(is_moving)
        is_preparing = training.is_preparing and self._has_shown
        if wants and (not training.is_running or self._viewing_is_due(is_moving)):
            self._draw(is_moving)
        elif training.is_running:
            self._train(is_moving)
        elif is_preparing:
            self._prepare()
        if wants or training.is_running or is_preparing:
            self._status.tell(self._interval)
            return 0.0
        self._attempt(self._rest)
        return self._pause(is_moving)

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
        """Whether preparing for training no longer delays the first image."""
        return self._session.screen.shown is not None or time.monotonic() > self._begun + PATIENCE

    @property
    def _interval(self) -> float:
        """Seconds between two messages about the state."""
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
        self._watched_time.draw(seconds)

    def _draw_rows(self, target: Target, is_moving: bool) -> None:
        session = self._session
        image = session.screen.draw(
            session.run.trainer,
            target,
            session.run.state,
            moving=is_moving,
            training=session.training.is_running,
        )
        if image is not None:
            self._send(image)

    def _send(self, image: ScreenImage) -> None:
        """Send the page a finished image."""
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

    def _prepare(self) -> None:
        session = self._session
        if error := self._attempt(session.training.prepare):
            session.failure = error

    def _rest(self) -> None:
        """Keep the last image for pages without a kernel; all is drawn and nothing trains."""
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
        """Seconds until there may be something to do or to send; None: not before a message."""
        session = self._session
        held = session.moving_until - time.monotonic() if is_moving else None
        video = INTERVAL if session.path_editor.is_rendering else None
        pauses = (self._status.tell(), session.screen.pause, held, video)
        return min((max(pause, 0.0) for pause in pauses if pause is not None), default=None)

    def _attempt(self, action: Callable[[], None]) -> Exception | None:
        """Do `action`. Return its exception, if any, after showing it on the page."""
        try:
            action()
        except (InputError, DivergedError, OSError) as error:
            self._session.notice = str(error)
            return error
        except Exception as error:
            log.exception("the viewer failed")
            self._session.notice = f"{type(error).__name__}: {error}"
            return error
        return None
