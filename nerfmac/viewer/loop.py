"""`Loop`: runs a `Session` in slices of work: messages first, then a picture or training.

Any thread may post messages. The worker's thread handles them in order, and trains and draws. It
handles all waiting messages before the next picture, so the page always sees the newest camera.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from nerfmac.backend.watchdog import retried
from nerfmac.common.checks import InputError
from nerfmac.training.measured import DivergedError
from nerfmac.viewer.messages import handle
from nerfmac.viewer.screen import JPEG_QUALITY, ScreenPicture, Target, encode_jpeg
from nerfmac.viewer.session import Message, Session
from nerfmac.viewer.status import IDLE_INTERVAL, INTERVAL, Status
from nerfmac.viewer.worker import Worker

log = logging.getLogger("nerfmac")

SLICE = {True: 0.02, False: 0.1}
"""Seconds of training between checks for messages, while the camera moves (True) and at rest."""

MAX_TRAINING_SHARE = 0.95
"""Largest share of the device's time for training, so that pictures still come now and then."""

TOUCH = 10.0
"""Seconds after a message about anything but pictures during which the page counts as in use."""

IDLE_SHARE = 0.02
"""Share of the device's time for pictures during training that nobody seems to use."""

KEPT_SIZE = 640, 480
"""Largest width and height of the picture that is kept if no page was open."""

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


class Loop:
    """Runs one session, as an `Activity` of the worker. Any thread may call `post`."""

    def __init__(self, worker: Worker, session: Session, keep: Callable[[bytes], None]) -> None:
        """`keep(jpeg)` stores a finished picture for pages without a kernel."""
        self._worker, self._session, self._keep = worker, session, keep
        self._messages: deque[Message] = deque()
        self._status = Status(session)
        self._device_time = DeviceTime()
        self._undrawable: Target | None = None  # drawing it has failed, so it is not tried again
        self._unkept: bytes | None = None  # the last finished picture, until it is kept
        self._asked: float | None = None  # the newest `t` that no picture has answered
        self._touched = -math.inf  # time.monotonic() of the last message but acknowledgements
        self._spent = 0.0  # seconds spent on the picture in the making
        self._idle_until = 0.0  # time.monotonic() before which an idle page gets no picture

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
        wants = self._wants_picture(is_moving)
        if wants and (not training.is_running or self._viewing_is_due(is_moving)):
            self._draw(is_moving)
        elif training.is_running:
            self._train(is_moving)
        if wants or training.is_running:
            self._status.tell(IDLE_INTERVAL if self._is_idle else INTERVAL)
            return 0.0
        self._attempt(self._rest)
        return self._pause(is_moving)

    def _take(self, message: Message) -> None:
        self._session.screen.hear()
        if message.get("kind") != "ack":
            self._touched = time.monotonic()
        if isinstance(asked := message.get("t"), int | float):
            self._asked = float(asked)
        handle(self._session, message)

    def _wants_picture(self, is_moving: bool) -> bool:
        session, target = self._session, self._session.target()
        return target is not self._undrawable and session.screen.wants(
            target, session.run.state, moving=is_moving, training=session.training.is_running
        )

    @property
    def _is_idle(self) -> bool:
        return time.monotonic() > self._touched + TOUCH

    def _viewing_is_due(self, is_moving: bool) -> bool:
        if self._is_idle:
            return time.monotonic() >= self._idle_until
        share = min(self._session.settings.share, MAX_TRAINING_SHARE)
        return self._device_time.viewing_is_due(0.5 * share if is_moving else share)

    def _draw(self, is_moving: bool) -> None:
        start, target = time.perf_counter(), self._session.target()
        draw = partial(self._draw_rows, target, is_moving)
        if self._attempt(lambda: retried(draw, on_failure=self._session.screen.invalidate)):
            self._undrawable = target
        seconds = time.perf_counter() - start
        self._device_time.spend(seconds, training=False)
        self._spent += seconds

    def _draw_rows(self, target: Target, is_moving: bool) -> None:
        session = self._session
        picture = session.screen.draw(
            session.run.trainer,
            target,
            session.run.state,
            moving=is_moving,
            training=session.training.is_running,
        )
        if picture is not None:
            self._send(picture)
            self._idle_until = time.monotonic() + self._spent / IDLE_SHARE
            self._spent = 0.0

    def _send(self, picture: ScreenPicture) -> None:
        """Send the page a finished picture."""
        session, comparison = self._session, self._session.comparison
        if picture.is_full:
            self._unkept = picture.jpeg
        is_measured = comparison and picture.is_full and session.settings.mode == "colour"
        answer = {
            "id": session.screen.send(),
            "t": self._asked,
            "view": picture.target.view.to_json(),
            "version": session.version,
            "mover": session.mover,
            "compared": comparison.index if comparison else None,
            "psnr": comparison.psnr(picture.drawn.rgb) if comparison and is_measured else None,
        }
        self._asked = None
        session.send({**picture.message, **answer}, picture.buffers)

    def _train(self, is_moving: bool) -> None:
        start, session = time.perf_counter(), self._session
        session.failure = self._attempt(lambda: session.training.work(SLICE[is_moving]))
        self._device_time.spend(time.perf_counter() - start, training=True)

    def _rest(self) -> None:
        """Keep the last picture for pages without a kernel; all is drawn and nothing trains."""
        session = self._session
        if not session.is_resting.is_set() and not session.screen.is_open:
            camera = session.target().camera(*session.target().full_size(*KEPT_SIZE))
            drawn = session.pictures().draw(camera, session.view.distance)
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
