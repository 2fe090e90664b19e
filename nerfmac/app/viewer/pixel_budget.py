"""`PixelBudget` estimates the image size that can be drawn in a given time.

Images have one of the eleven sizes in `SCALES`, so that functions that are compiled for a size can
be reused.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import combinations
from statistics import median

SCALES = tuple(2.0 ** (-step / 2) for step in range(11))
"""Width and height of an image relative to the full size, from 1 to 1/32. Each entry has half the
number of pixels of the previous entry."""

MIN_FRACTION = 1 / 8
"""Minimum number of pixels of an image, as a fraction of the full image. If drawing this number of
pixels takes longer than the maximum time, the image has fewer pixels."""

MAX_SECONDS = 0.15
"""Default maximum drawing time in seconds for an image with `MIN_FRACTION` of the pixels. If the
estimated time is longer, the image has fewer pixels."""

GROWTH = 4
"""Maximum growth of the pixel count, relative to the largest recent image, while images are
enlarged to `MIN_FRACTION`. The estimated time for a still larger image would be uncertain."""

LATE = 1.25
"""An image counts as late if its drawing time exceeds the allowed time by more than this factor."""

RECENT = 12
"""Number of recent images that the estimates are fitted to."""


class PixelBudget:
    """Estimate of the number of pixels that can be drawn in a given time, from recent images.

    The model is that an image of n pixels takes `fixed + per_pixel * n` seconds, where `fixed` is
    the time for kernel launches and copies. The coefficients `fixed` and `per_pixel` are Theil-Sen
    estimates: `per_pixel` is the median slope over all pairs of recent images. Therefore, a few
    images that were slowed down by other programs do not change the fit.

    If `fixed` is more than half of the allowed time, the allowed time is raised to 2 `fixed`
    seconds, because even the smallest image takes `fixed` seconds.
    """

    def __init__(
        self,
        seconds: float,
        pixels: int,
        max_seconds: float = MAX_SECONDS,
        *,
        is_stable: bool = True,
    ) -> None:
        """Create a pixel budget without measurements.

        Args:
            seconds: Allowed time for an image in seconds.
            pixels: Initial estimate of the number of pixels.
            max_seconds: Maximum drawing time in seconds for an image with `MIN_FRACTION` of the
                pixels. If the estimated time is longer, images have fewer pixels.
            is_stable: Whether the time per pixel is stable. During training, it is not stable,
                because training removes haze. If the time per pixel is not stable, images of
                different sizes cannot be compared. In this case, the estimate uses only the last
                image, and `fixed` is 0.
        """
        self._seconds, self._pixels, self._max_seconds = seconds, float(pixels), max_seconds
        # Pixels and seconds of each image.
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT if is_stable else 1)
        self._was_late = False
        # In seconds; None if all images so far had the same size.
        self._fixed: float | None = None if is_stable else 0.0
        self._per_pixel = 0.0  # Seconds.

    def learn(self, pixels: int, seconds: float) -> None:
        """Record the drawing time of an image.

        The time of a late image is used only if the previous image was also late, because a single
        late image may have waited for a compiler.

        Args:
            pixels: Number of pixels.
            seconds: Drawing time in seconds.
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
        if fixed is None:  # A guess; the next image then has another size.
            fixed = typical if typical <= max(self._seconds, MAX_SECONDS) else 0.0
        self._per_pixel = max(typical - fixed, 0.0) / pixels

    def _allowed(self, seconds: float) -> float:
        return max(seconds, 2.0 * (self._fixed or 0.0))

    def _fitting(self, seconds: float) -> float:
        """Return the number of pixels that can be drawn in the larger of `seconds` and 2 `fixed`
        seconds."""
        remaining = self._allowed(seconds) - (self._fixed or 0.0)
        return remaining / self._per_pixel if self._per_pixel else math.inf

    def scale(self, pixels: int, max_pixels: float = math.inf) -> float:
        """Return the largest scale in `SCALES` for which an image can be drawn in the allowed time.

        If drawing `MIN_FRACTION` of the pixels is estimated to take at most `max_seconds`, the
        scale is at least large enough for this number of pixels.

        Args:
            pixels: Number of pixels at full size.
            max_pixels: Maximum number of pixels to draw.

        Returns:
            Width and height of the image relative to the full size.
        """
        min_pixels = 0.0
        if self._recent:
            known = GROWTH * max(drawn for drawn, _ in self._recent)
            min_pixels = min(MIN_FRACTION * pixels, self._fitting(self._max_seconds), known)
        max_pixels = 1.01 * min(max(self._pixels, min_pixels), max_pixels)
        return next((scale for scale in SCALES if pixels * scale * scale <= max_pixels), SCALES[-1])

    def rows(self, width: int) -> int:
        """Return the number of rows of `width` pixels that can be drawn in the allowed time,
        rounded down to a power of two from 4 to 4096."""
        return 2 ** min(max(int(math.log2(max(self._pixels / width, 1.0))), 2), 12)
