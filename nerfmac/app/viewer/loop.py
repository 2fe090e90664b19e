"""`Loop` runs a `Session` in slices: it handles messages, and then draws an image or trains.

Any thread may post messages. The worker thread handles all waiting messages before each image, so
that the image shows the latest camera. The pages take turns: the next image or strip is that of the
page that has waited longest.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from nerfmac.app.export import encode_jpeg
from nerfmac.app.viewer.messages import handle
from nerfmac.app.viewer.open_page import INTERVAL, Message, OpenPage
from nerfmac.app.viewer.pace import MOVED, SLICE, Kind
from nerfmac.app.viewer.screen import JPEG_QUALITY
from nerfmac.app.viewer.session import Session
from nerfmac.app.viewer.worker import Worker
from nerfmac.backend.watchdog import note, retried
from nerfmac.common import InputError, log
from nerfmac.training.measured import DivergedError

UNTOUCHED = ("ack", "went", "ready", "size", "visible", "train", "pause")
"""Kinds of messages that do not count as user actions in the view."""
KEPT_SIZE = 320, 240  # Size in pixels of the image that is stored if no page is open.


class Loop:
    """Activity that runs a session on the worker thread. Any thread may call `post`."""

    def __init__(self, worker: Worker, session: Session, keep: Callable[[bytes], None]) -> None:
        """Create a loop. `keep` stores a finished JPEG image for pages without a kernel."""
        self._worker, self._session, self._keep = worker, session, keep
        self._pages = session.pages  # In the order in which the pages take turns.
        self._messages: deque[Message] = deque()
        self._was_running = False
        self._unkept: bytes | None = None  # Last finished image until it is stored.

    def post(self, message: Message) -> None:
        """Queue `message` and wake the worker. A `ping` is answered at once, because the worker may
        be busy for seconds."""
        if message.get("kind") == "ping":
            self._session.send({"kind": "pong"}, [])
            return
        self._messages.append(message)
        self._worker.wake(self)

    def work(self) -> float | None:
        """Handle the messages, and then draw some rows of an image or train (see `Activity`)."""
        self._listen()
        session, jobs, training = self._session, self._session.jobs, self._session.training
        pages = self._pages.values()
        if training.is_running != self._was_running:
            self._was_running = training.is_running
            session.pace.restart()
        wanted = self._next_page()
        seconds = self._training_time(wanted) if training.is_running else 0.0
        waiting = next((page for page in pages if page.photos is not None), None)
        is_preparing = training.is_preparing and any(page.screen.shown for page in pages)
        is_busy = any((wanted, waiting, jobs.is_waiting, training.is_running, is_preparing))
        if wanted and not seconds:
            self._draw(*wanted)
        elif waiting:
            self._attempt(waiting.send_photos)
        elif jobs.is_waiting:
            self._attempt(lambda: jobs.work(self._breathe))
        elif training.is_running:
            self._train(seconds)
        elif is_preparing:
            training.failure = self._attempt(training.prepare) or training.failure
        pause = min((session.tell(page, is_busy=is_busy) for page in pages), default=math.inf)
        if is_busy:
            return 0.0
        self._attempt(self._rest)
        return self._pause(pause)

    def _listen(self) -> None:
        while self._messages:
            self._attempt(partial(self._take, self._messages.popleft()))
        for page in self._pages.values():
            if page.screen.flow.is_gone:
                self.post({"kind": "leave", "page": page.name})

    def _take(self, message: Message) -> None:
        handle(self._session, message)
        if page := self._pages.get(message["page"]):
            page.asked = message.get("t", page.asked)
            if message["kind"] not in UNTOUCHED:
                page.touched = time.monotonic()

    def _breathe(self) -> None:
        """Handle the messages, and draw some rows of an image, between two steps of an export."""
        self._listen()
        if wanted := self._next_page():
            self._draw(*wanted)
        for page in self._pages.values():
            self._session.tell(page, is_busy=True)

    def _next_page(self) -> tuple[OpenPage, Kind] | None:
        """Return the page that has waited longest for an image, and the kind of the image."""
        is_running = self._session.training.is_running
        for page in self._pages.values():
            if (page.is_visible or not is_running) and (kind := page.wanted()):
                return page, kind
        return None

    def _training_time(self, wanted: tuple[OpenPage, Kind] | None) -> float:
        """Return the time in seconds for which training may run before a page must be served."""
        session = self._session
        is_moving = any(page.held > 0.0 for page in self._pages.values())
        if wanted is None:
            return SLICE[is_moving]
        page, kind = wanted
        is_new = page.screen.shown is None
        is_used = page.is_touched or kind in MOVED
        if is_new or (page.screen.job and not is_used):
            return 0.0
        share, state = session.settings.share if is_used else None, session.run.state
        return session.pace.training_time(share, is_moving=is_moving, trained=state.train_seconds)

    def _draw(self, page: OpenPage, kind: Kind) -> None:
        session, start, target = self._session, time.perf_counter(), page.target()
        self._pages[page.name] = self._pages.pop(page.name)  # The other pages are next.

        def draw() -> None:
            if (image := page.draw(kind)) is not None and image.message["still"]:
                self._unkept = image.jpeg

        if self._attempt(lambda: retried(draw, on_failure=page.screen.invalidate)):
            page.undrawable = target
        session.pace.served(time.perf_counter() - start)

    def _train(self, seconds: float) -> None:
        start, training = time.perf_counter(), self._session.training
        training.failure = self._attempt(lambda: training.work(seconds))
        self._session.pace.trained(time.perf_counter() - start)
        if training.has_finished and training.run.images().splits.get("test"):
            self._session.jobs.measure()

    def _rest(self) -> None:
        """Store the last image for pages without a kernel if nothing remains to draw or train."""
        session = self._session
        if not session.training.is_resting.is_set() and not self._pages:
            images, focus = session.images()
            drawn = images.draw(session.view.camera(*KEPT_SIZE), focus)
            self._unkept = encode_jpeg(drawn.rgb, JPEG_QUALITY[True])
        if self._unkept is not None:
            self._keep(self._unkept)
            self._unkept = None
        session.training.is_resting.set()

    def _pause(self, pause: float) -> float | None:
        """Return the seconds until the next call of `work`, at most `pause`, or None to wait for a
        message."""
        pauses = [pause]
        for page in self._pages.values():
            pauses += [each for each in (page.screen.pause, page.held) if each > 0.0]
        if self._session.jobs.path_editor.is_rendering:
            pauses.append(INTERVAL)
        return None if min(pauses) == math.inf else min(pauses)

    def _attempt(self, action: Callable[[], None]) -> Exception | None:
        """Run `action`. Show an exception on the pages and return it."""
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
