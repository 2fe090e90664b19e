"""`Flow` limits the number of images on the way to a page."""

import time
from collections import deque

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
