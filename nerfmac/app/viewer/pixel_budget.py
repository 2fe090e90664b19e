"""`PixelBudget`: the size of images that can be drawn in a given time.

Images have one of few sizes, so that functions compiled for a size are used again.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import combinations
from statistics import median

SCALES = tuple(2.0 ** (-step / 2) for step in range(11))
"""Sides of a image as fractions of full size, 1 to 1/32; each step halves the pixels."""

MIN_FRACTION = 1 / 8
"""Smallest fraction of the full image's pixels, unless it takes too long."""

MAX_SECONDS = 0.15
"""Seconds above which a image is made smaller than `MIN_FRACTION`, by default."""

GROWTH = 4
"""Largest factor between the pixels of a image and of the largest recent one, if these are fewer
than `MIN_FRACTION`: the time of so many more is a guess."""

LATE = 1.25
"""A image that takes longer than this many times its allowed time is late."""

RECENT = 12
"""Number of recent images that the fit uses."""


class PixelBudget:
    """Number of pixels that can be drawn in `seconds`, learned from recent images.

    A image of n pixels takes `fixed + per_pixel * n` seconds; `fixed` is the time of launches and
    copies. Both are the Theil-Sen fit to recent images: `per_pixel` is the median slope between
    two of them. So a few images that other programs slow down do not change the fit.

    If `fixed` is more than half of `seconds`, a image may take 2 `fixed` seconds: even the
    smallest takes half of that.
    """

    def __init__(self, seconds: float, pixels: int, most_seconds: float = MAX_SECONDS) -> None:
        """`pixels`: a first guess; `most_seconds`: for a image of `MIN_FRACTION`."""
        self._seconds, self._pixels, self._most_seconds = seconds, float(pixels), most_seconds
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)  # pixels, seconds
        self._was_late = False
        self._fixed: float | None = None  # seconds; None: all images so far had one size
        self._per_pixel = 0.0  # seconds

    def learn(self, pixels: int, seconds: float) -> None:
        """Record that a image of `pixels` took `seconds`.

        A late image counts only after another late one: the first may have waited for a compiler.
        """
        is_late = seconds > LATE * self._allowed(self._seconds)
        is_believed, self._was_late = self._was_late or not is_late, is_late
        if not is_believed:
            return
        self._recent.append((pixels, seconds))
        self._fit()
        fitting = self._fitting(self._seconds)
        if fitting > self._pixels:
            self._pixels = max(self._pixels, min(fitting, 2.0 * pixels))
        elif fitting < pixels / LATE:
            self._pixels = fitting

    def _fit(self) -> None:
        pairs = combinations(self._recent, 2)
        slopes = [(t - s) / (n - m) for (m, s), (n, t) in pairs if n != m]
        if slopes:
            self._per_pixel = max(median(slopes), 0.0)
            self._fixed = max(median(t - self._per_pixel * n for n, t in self._recent), 0.0)
            return
        pixels, typical = self._recent[-1][0], median(t for _, t in self._recent)
        fixed = self._fixed
        if fixed is None:  # a guess; it gives the next image another size, so that a fit exists
            fixed = typical if typical <= max(self._seconds, MAX_SECONDS) else 0.0
        self._per_pixel = max(typical - fixed, 0.0) / pixels

    def _allowed(self, seconds: float) -> float:
        return max(seconds, 2.0 * (self._fixed or 0.0))

    def _fitting(self, seconds: float) -> float:
        """Number of pixels that fit in the time allowed for `seconds`."""
        left = self._allowed(seconds) - (self._fixed or 0.0)
        return left / self._per_pixel if self._per_pixel else math.inf

    def scale(self, pixels: int) -> float:
        """Largest of `SCALES` at which a image, of `pixels` at full size, is drawn in time.

        At least `MIN_FRACTION` of the pixels are drawn, if these are known to take no more than
        `most_seconds`.
        """
        least = 0.0
        if self._recent:
            known = GROWTH * max(drawn for drawn, _ in self._recent)
            least = min(MIN_FRACTION * pixels, self._fitting(self._most_seconds), known)
        most = 1.01 * max(self._pixels, least)
        return next((scale for scale in SCALES if pixels * scale * scale <= most), SCALES[-1])

    def rows(self, width: int) -> int:
        """Number of rows of `width` pixels drawn in time; a power of two from 4 to 4096."""
        return 2 ** min(max(int(math.log2(max(self._pixels / width, 1.0))), 2), 12)
