"""`PixelBudget` estimates the image size that can be drawn in a given time."""

import math
from collections import deque
from itertools import combinations
from statistics import median

SCALES = tuple(2.0 ** (-step / 2) for step in range(11))
"""Width and height of an image relative to the full size, from 1 to 1/32. Each entry has half the
number of pixels of the previous entry. Functions that are compiled for one of these sizes can be
reused."""
MIN_FRACTION = 1 / 8
"""Minimum number of pixels of an image, as a fraction of the full image, unless drawing this number
takes longer than the maximum time."""
MAX_SECONDS = 0.15
"""Default maximum drawing time in seconds for an image with `MIN_FRACTION` of the pixels."""
GROWTH = 4
"""Maximum growth of the pixel count, relative to the largest recent image, while images are
enlarged to `MIN_FRACTION`, because estimates for still larger images are uncertain."""
LATE = 1.25
"""An image is late if its drawing time exceeds the allowed time by more than this factor."""
RECENT = 12  # Number of recent images that the estimates are fitted to.


class PixelBudget:
    """Estimate of the number of pixels that can be drawn in a given time, from recent images.

    An image of n pixels is modeled to take `fixed + per_pixel * n` seconds, where `fixed` is the
    time for kernel launches and copies. Both coefficients are Theil-Sen estimates, so a few images
    that other programs delay do not change the fit. If `fixed` is more than half of the allowed
    time, the allowed time is raised to 2 `fixed` seconds.
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
            max_seconds: Maximum time for an image with `MIN_FRACTION` of the pixels.
            is_stable: Whether the time per pixel is stable. During training, it is not, because
                training removes haze. The estimate then uses only the last image, and `fixed` is 0.
        """
        self._seconds, self._pixels, self._max_seconds = seconds, float(pixels), max_seconds
        # Pixels and seconds of each image.
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT if is_stable else 1)
        self._was_late = False
        # In seconds; None if all images so far had the same size.
        self._fixed: float | None = None if is_stable else 0.0
        self._per_pixel = 0.0  # Seconds.

    def learn(self, pixels: int, seconds: float) -> None:
        """Record the drawing time in seconds of an image. The time of a late image is used only if
        the previous image was also late, because a single late image may have waited for a
        compiler."""
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
        """Return the number of pixels for `seconds`, or for 2 `fixed` seconds if longer."""
        remaining = self._allowed(seconds) - (self._fixed or 0.0)
        return remaining / self._per_pixel if self._per_pixel else math.inf

    def scale(self, pixels: int, max_pixels: float = math.inf) -> float:
        """Return the largest scale in `SCALES` at which an image with `pixels` pixels at full size,
        and at most `max_pixels` drawn pixels, can be drawn in the allowed time. The scale is raised
        to `MIN_FRACTION` of the pixels if these are estimated to take at most `max_seconds`."""
        min_pixels = 0.0
        if self._recent:
            known = GROWTH * max(drawn for drawn, _ in self._recent)
            min_pixels = min(MIN_FRACTION * pixels, self._fitting(self._max_seconds), known)
        max_pixels = 1.01 * min(max(self._pixels, min_pixels), max_pixels)
        return next((scale for scale in SCALES if pixels * scale * scale <= max_pixels), SCALES[-1])

    def rows(self, width: int) -> int:
        """Return the number of rows of `width` pixels that can be drawn in the allowed time: a
        power of two from 4 to 4096."""
        return 2 ** min(max(int(math.log2(max(self._pixels / width, 1.0))), 2), 12)
