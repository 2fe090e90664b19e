"""`Pace` divides the time of the device between the pages and the training.

`Pace` learns the seconds per pixel from the images that the pages have drawn, and answers three
questions: how large the next image is (`scale`), how many of its rows are drawn before messages are
handled (`rows`), and how long training may run before a page must be served (`training_time`). All
arguments are durations, so the answers do not depend on a clock.

While the camera moves, images are small. A page that warps images moves the last image with the
camera until the next one arrives, so its images may be larger and take longer. If the camera rests,
the image has full size and is drawn in strips. After a small image, an image of half the width and
height precedes the full image.
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from statistics import median


class Kind(Enum):
    """Reason for an image. The values are the allowed drawing time in seconds, and the maximum time
    for `MIN_FRACTION` of the pixels of the full image."""

    MOVING = 1 / 60, 0.15  # The camera moves.
    WARPED = 0.15, 0.5  # The camera moves, and the page warps the last image until the next one.
    TRAINED = 0.11, 0.15  # The camera rests, and training has changed the scene.
    RESTING = math.inf, math.inf  # The camera and the scene rest.


MOVED = (Kind.MOVING, Kind.WARPED)  # The camera has moved since the last image.
SCALES = tuple(2.0 ** (-step / 2) for step in range(11))
"""Width and height of an image relative to the full size, from 1 to 1/32. Each entry has half the
number of pixels of the previous entry. Functions that are compiled for one of these sizes can be
reused."""
MIN_FRACTION = 1 / 8  # Minimum fraction of the pixels, unless they take the maximum time.
FIRST_PIXELS = 2**11
"""Maximum number of pixels of the first image. An untrained field is haze, and rays have about a
hundred times as many samples in haze."""
GROWTH = 2
"""Maximum growth of the pixel count, relative to the largest recent drawing, because estimates for
still larger drawings are uncertain. Images below `MIN_FRACTION` may grow twice as fast."""
LATE = 1.25  # A drawing is late if its time exceeds the allowed time by more than this factor.
RECENT = 12  # Number of recent images that the estimates are fitted to.
RECENT_IN_TRAINING = 3  # The same during training.
STRIP = 1 / 30
"""Allowed time in seconds for a strip of an image. Messages are handled between two strips."""
HAZE_STEPS = 128
"""Number of training steps during which images have at most `HAZE_PIXELS` pixels. In these steps,
the field changes from transparent to dense haze, so earlier drawing times predict nothing."""
HAZE_PIXELS = 2**14
MIDDLE = 0.5  # Width and height of the image before the full image, relative to the full size.
MAX_KEPT = 0.8
"""Maximum time in seconds for an image during training that is as large as the last image. Images
with the same content become smaller only if they would take longer."""
BREATH = 0.5
"""Idle time after an image for a page that warps images on a CPU, because the page and the kernel
often share the CPU, as a fraction of the drawing time. The maximum time is `MAX_BREATH` seconds."""
MAX_BREATH = 0.075
SLICE = {True: 0.02, False: 0.1}
"""Training time in seconds between two checks for messages, while a camera moves (True) or not."""
MIN_SLICE = 0.005  # Minimum training time in seconds between two images.
MAX_TRAINING_SHARE = 0.95
"""Maximum fraction of the device time for training, while a page is in use."""
WATCHED_SHARE = 1 / 1.05
"""Fraction of the device time for training, while pages are visible but not in use."""
MAX_WAIT = 1.8  # Maximum training time in seconds between two images.
FIRST_WAIT = 0.6  # The same at the start of training, when images change fastest.
MOVING_WAIT = 0.15  # The same while a camera moves, even if an earlier image has taken longer.
WAIT_GROWTH = 0.2
"""Maximum training time between two images, as a fraction of the training time so far. The product
is clipped to the range from `FIRST_WAIT` to `MAX_WAIT`."""


@dataclass
class Drawing:
    """Measured drawings of one image: of the whole image, or of its strips so far."""

    kind: Kind
    pixels: int = 0
    seconds: float = 0.0
    count: int = 0
    largest: int = 0  # Number of pixels of the largest strip.


class Cost:
    """Drawing time of one output: `fixed` seconds for kernel launches and copies, and `per_pixel`.

    Both are Theil-Sen estimates, so a few images that other programs delay do not change the fit.
    """

    def __init__(self) -> None:
        self.recent: deque[Drawing] = deque(maxlen=RECENT)
        self.fixed: float | None = None  # None if all images so far had the same size.
        self.per_pixel = 0.0
        self._was_late = False

    def add(self, drawing: Drawing, pixels: int, seconds: float, *, training: bool) -> None:
        """Add the drawing of a strip to its image. The time of a late drawing is used only if the
        previous one was also late, because a single late drawing may have waited for a compiler."""
        expected = drawing.kind.value[0] if drawing.kind in MOVED else STRIP
        is_late = seconds > LATE * self.allowed(expected)
        is_believed, self._was_late = self._was_late or not is_late, is_late
        if not is_believed:
            return
        if drawing.count == 0:
            self.recent.append(drawing)
        drawing.pixels, drawing.seconds = drawing.pixels + pixels, drawing.seconds + seconds
        drawing.count, drawing.largest = drawing.count + 1, max(drawing.largest, pixels)
        self._fit(training=training)

    def _fit(self, *, training: bool) -> None:
        means = [(each.pixels / each.count, each.seconds / each.count) for each in self.recent]
        slopes = [(t - s) / (n - m) for (m, s), (n, t) in combinations(means, 2) if n != m]
        if training:  # Training removes haze, so that images of different ages differ in cost.
            means, fixed = means[-RECENT_IN_TRAINING:], self.fixed or 0.0
        elif slopes:
            self.per_pixel = max(median(slopes), 0.0)
            self.fixed = max(median(t - self.per_pixel * n for n, t in means), 0.0)
            return
        else:  # The fixed time is a guess until an image has another size. The next is larger.
            typical = median(t for _, t in means)
            guess = typical if typical <= Kind.WARPED.value[0] else 0.0
            fixed = guess if self.fixed is None else self.fixed
        self.per_pixel = max(median((t - fixed) / n for n, t in means), 0.0)

    def allowed(self, seconds: float) -> float:
        """Return `seconds`, or twice the fixed time if longer."""
        return max(seconds, 2.0 * (self.fixed or 0.0))

    def pixels_in(self, seconds: float) -> float:
        """Return the number of pixels that can be drawn in the allowed time."""
        remaining = self.allowed(seconds) - (self.fixed or 0.0)
        return remaining / self.per_pixel if self.per_pixel else math.inf


class Pace:
    """Sizes of images, and the division of the device time between images and training."""

    def __init__(self) -> None:
        self._costs: defaultdict[tuple[str, bool], Cost] = defaultdict(Cost)
        """By output: of images of a moving camera (True), and of all images and strips (False)."""
        self._last: dict[tuple[str, Kind], float] = {}  # Number of pixels of the last image.
        self.restart()

    def scale(
        self, kind: Kind, output: str, pixels: int, step: int, shown: tuple[float, float]
    ) -> float:
        """Return the width and height of the next image relative to the full image.

        Args:
            kind: Reason for the image.
            output: Rendered output, because outputs differ in their drawing time.
            pixels: Number of pixels of the full image.
            step: Training step.
            shown: Scale and drawing time in seconds of the image on the page, or zeros.
        """
        if kind is Kind.RESTING:
            return MIDDLE if 0.0 < shown[0] < MIDDLE else 1.0
        cost, (seconds, longest) = self._costs[output, kind in MOVED], kind.value
        is_haze = 0 < step < HAZE_STEPS
        fitting, last = cost.pixels_in(seconds), self._last.get((output, kind), 0.0)
        if fitting < last <= LATE * fitting:
            fitting = last
        largest = max((each.pixels for each in cost.recent), default=0)
        fitting = min(fitting, max(GROWTH * largest, FIRST_PIXELS))
        least = min(MIN_FRACTION * pixels, cost.pixels_in(longest), 2 * GROWTH * largest)
        most = 1.01 * min(max(fitting, least), HAZE_PIXELS if is_haze else math.inf)
        scale = next((each for each in SCALES if pixels * each * each <= most), SCALES[-1])
        self._last[output, kind] = pixels * scale * scale
        if kind is Kind.TRAINED and not is_haze:
            return max(scale, shown[0] / math.sqrt(max(shown[1] / MAX_KEPT, 1.0)))
        return scale

    def rows(self, drawing: Drawing, output: str, width: int, height: int) -> int:
        """Return the number of rows of `width` pixels, at most `height`, that are drawn before
        messages are handled. An image of a moving camera is drawn at once: if a message moved the
        camera after each strip, no image would ever be finished."""
        if drawing.kind in MOVED:
            return height
        cost = self._costs[output, False]
        largest = max((each.largest for each in cost.recent), default=0)
        pixels = min(cost.pixels_in(STRIP), max(GROWTH * largest, FIRST_PIXELS))
        return min(2 ** max(int(math.log2(max(pixels / width, 1.0))), 2), height)

    def drawn(
        self, drawing: Drawing, output: str, pixels: int, seconds: float, *, training: bool
    ) -> None:
        """Record the drawing time in seconds of a strip with `pixels` pixels."""
        self._costs[output, False].add(drawing, pixels, seconds, training=training)
        if drawing.kind in MOVED:  # These are drawn at once.
            own = Drawing(drawing.kind)
            self._costs[output, True].add(own, pixels, seconds, training=False)

    def seconds_per_pixel(self, output: str) -> float | None:
        """Return the drawing time per pixel of a large image, or None if it is unknown."""
        largest = max(self._costs[output, False].recent, key=lambda each: each.pixels, default=None)
        return float(f"{largest.seconds / largest.pixels:.2g}") if largest else None

    def restart(self) -> None:
        """Make the next image due, because training has started or stopped."""
        self._owed = 0.0  # Drawing time in seconds that training has yet to earn.
        self._rate = 0.0  # Drawing time that one second of training earns.

    def served(self, seconds: float) -> None:
        """Record time in seconds for drawing and sending images."""
        self._owed += seconds

    def trained(self, seconds: float) -> None:
        """Record training time in seconds."""
        self._owed -= self._rate * seconds

    def training_time(self, share: float | None, *, is_moving: bool, trained: float) -> float:
        """Return the time in seconds for which training may run before a page must be served, or 0
        if the page must be served now.

        Args:
            share: Fraction of the device time for training, or None while no page is in use. While
                a camera moves, half of this fraction is used.
            is_moving: Whether a camera moves.
            trained: Training time in seconds so far.
        """
        if share is None:
            share = WATCHED_SHARE
        else:
            share = max(min(share, MAX_TRAINING_SHARE) * (0.5 if is_moving else 1.0), 1e-3)
        self._rate = (1.0 - share) / share
        wait = min(max(FIRST_WAIT, WAIT_GROWTH * trained), MAX_WAIT)
        longest = self._rate * (MOVING_WAIT if is_moving else wait)
        self._owed = min(max(self._owed, -longest), longest)
        wait = self._owed / self._rate
        return min(wait, SLICE[is_moving]) if wait > MIN_SLICE else 0.0
