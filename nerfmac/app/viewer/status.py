"""`Status` sends the state of a session to one page."""

import math
import time

from nerfmac.app.viewer.open_page import Message, OpenPage
from nerfmac.app.viewer.session import Session
from nerfmac.app.viewer.settings import RANGES

INTERVAL = 0.2
"""Minimum time in seconds between two state messages, while the page is in use or nothing is to be
done."""
WATCHED_INTERVAL = {True: 1.0, False: 2.0}
"""The same while the camera moves, or during work while the page is not in use, if its image is
visible (True) or not. The page needs about 17 ms of CPU time for a message, often on the same CPU
cores as the training, and cannot move the image in this time."""


class Status:
    """Sender of state messages to a page. If any part has changed, the whole state is sent."""

    def __init__(self, session: Session, page: OpenPage) -> None:
        self._session, self._page = session, page
        self._last: Message | None = None
        self._when = 0.0
        self._points = self._generation = 0

    def introduce(self) -> None:
        """Send everything that does not change, and the state."""
        self._page.send({"kind": "ranges", "ranges": RANGES})
        sizes = self._session.jobs.path_editor.sizes
        self._page.send({**self._session.scene.cameras(), "sizes": sizes})
        self.tell(is_busy=True)

    def tell(self, *, is_busy: bool) -> float:
        """Send the state and new points of the training curve if they have changed. If the last
        message is too recent, send nothing. Return the time in seconds until the next call."""
        now, page = time.monotonic(), self._page
        is_watched = page.held > 0.0 or (is_busy and not page.is_touched)
        due = self._when + (WATCHED_INTERVAL[page.is_visible] if is_watched else INTERVAL)
        if now < due:
            return due - now
        message = self._session.status(page)
        if message != self._last:
            self._when, self._last = now, message
            page.send(message)
        self._tell_curve()
        return math.inf

    def _tell_curve(self) -> None:
        history = self._session.run.history
        is_fresh = self._points == 0 or history.generation != self._generation
        begin = 0 if is_fresh else self._points
        if points := history.points[begin:]:
            shown = [list(point) for point in points]
            self._page.send({"kind": "curve", "fresh": is_fresh, "points": shown})
        self._points, self._generation = len(history.points), history.generation
