"""`Status` sends the state of a session to one page."""

import math
import time

from nerfmac.app.viewer.open_page import Message, OpenPage
from nerfmac.app.viewer.session import Session
from nerfmac.app.viewer.settings import RANGES

INTERVAL = 0.2  # Minimum time in seconds between two state messages while the page is in use.
WATCHED_INTERVAL = 1.0  # The same while the page is visible but not in use.
ERRORS_INTERVAL = 2.0  # Minimum time in seconds between two messages with errors of views.
IDLE_INTERVAL = 2.0
"""The same while the page is not visible. The page needs about 17 ms of CPU time to handle a
message, often on the same CPU cores as the training."""


class Status:
    """Sender of state messages to a page. If any part has changed, the whole state is sent."""

    def __init__(self, session: Session, page: OpenPage) -> None:
        self._session, self._page = session, page
        self._last: Message | None = None
        self._when = 0.0
        self._points = self._generation = 0
        self._errors: list[float | None] = []
        self._told_errors = -math.inf  # time.monotonic() of the last message with errors.

    def introduce(self) -> None:
        """Send everything that does not change, and the state."""
        self._page.send({"kind": "ranges", "ranges": RANGES})
        sizes = self._session.jobs.path_editor.sizes
        self._page.send({**self._session.scene.cameras(), "sizes": sizes})
        self.tell(is_busy=False)

    @property
    def _interval(self) -> float:
        """Minimum time in seconds between two state messages during work."""
        if self._page.is_touched:
            return INTERVAL
        return WATCHED_INTERVAL if self._page.is_visible else IDLE_INTERVAL

    def tell(self, *, is_busy: bool) -> float:
        """Send the state and new points of the training curve if they have changed. If the last
        message is too recent, send nothing. Return the time in seconds until the next call."""
        now = time.monotonic()
        due = self._when + (self._interval if is_busy else INTERVAL)
        if now < due:
            return due - now
        message = self._session.status(self._page)
        if message != self._last:
            self._when, self._last = now, message
            self._page.send(message)
        self._tell_curve()
        self._tell_errors(now)
        return math.inf

    def _tell_errors(self, now: float) -> None:
        if now < self._told_errors + ERRORS_INTERVAL:
            return
        errors = self._session.training.errors.psnr
        if errors != self._errors and any(psnr is not None for psnr in errors):
            self._errors, self._told_errors = errors, now
            self._page.send({"kind": "errors", "psnr": errors})

    def _tell_curve(self) -> None:
        history = self._session.run.history
        is_fresh = self._points == 0 or history.generation != self._generation
        begin = 0 if is_fresh else self._points
        if points := history.points[begin:]:
            shown = [list(point) for point in points]
            self._page.send({"kind": "curve", "fresh": is_fresh, "points": shown})
        self._points, self._generation = len(history.points), history.generation
