"""`Screen`: which picture the page gets next, how large, and when; the worker's thread only.

While the camera moves, pictures are small enough to be drawn in time. At rest they have full size
and are drawn in strips, so that the next movement never waits for more than one strip. After a
small picture, one of half the width and height comes before the full one. The page acknowledges
every picture, and at most two are unacknowledged. So the newest camera is drawn, and old ones never
queue up.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer
from nerfmac.viewer.camera.navigation import View
from nerfmac.viewer.pictures.modes import Drawn, Look, Pictures
from nerfmac.viewer.screen.jpeg import encoded
from nerfmac.viewer.screen.pace import Pace

MOVING = 1 / 60
"""Seconds that a picture may take while the camera moves: the page has to draw it as well."""

REFRESH = 0.2
"""Seconds that a picture may take during training, when nobody moves the camera."""

STRIP = 1 / 30
"""Seconds that a strip of a picture may take, before the messages are looked at again."""

GUESSES = {MOVING: 2**14, REFRESH: 2**16, STRIP: 2**15}
"""First guesses of how many pixels there is time for."""

MIDDLE = 0.5
"""Scale of the picture between a smaller one and the full one, which takes four times as long."""

MOST_UNDER_WAY = 2

LOST = 1.0
"""Seconds without an answer after which one more picture is tried.

The page may be gone, or a running cell may delay its answers. So it is tried ever less often, but
always again.
"""

RARELY = 10.0
"""Seconds between two such tries, at most."""

LARGEST = 3840
"""Pixels of the longer side."""

QUALITY = {True: 90, False: 80}
"""JPEG's, at rest and moving."""


@dataclass(frozen=True, eq=False)
class Target:
    """What the page should show. A change of anything in it makes a new `Target`."""

    view: View
    look: Look
    standing: Camera | None = None  # the training camera that the view stands in

    def camera(self, width: int, height: int) -> Camera:
        """The camera of a picture of that size."""
        if self.standing is not None:
            return replace(self.standing, lens=self.standing.lens.scaled(width, height))
        return self.view.camera(width, height)

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """The size of the full picture in an area of `width` x `height`.

        A photograph's picture has its aspect, and is never larger than it.
        """
        if self.standing is None:
            return width, height
        lens = self.standing.lens
        factor = min(width / lens.width, height / lens.height, 1.0)
        return max(round(lens.width * factor), 1), max(round(lens.height * factor), 1)


class Frame(NamedTuple):
    """A picture as the page gets it."""

    content: dict[str, Any]  # the message; its number, `t` and a comparison are added on sending
    jpeg: bytes
    drawn: Drawn
    camera: Camera
    target: Target
    scale: float  # its width and height relative to the full picture's, before rounding

    @property
    def is_still(self) -> bool:
        """Whether it is the full picture."""
        return self.scale == 1.0


@dataclass
class _Job:
    """A picture in the making."""

    target: Target
    state: TrainState
    camera: Camera
    full: tuple[int, int]
    scale: float
    pictures: Pictures
    pace: Pace | None  # learns from how long it takes
    strips: list[Drawn]
    rows: int = 0  # drawn so far
    seconds: float = 0.0  # spent on them


class Screen:
    """The page's picture area."""

    def __init__(self) -> None:
        self.shown: Frame | None = None
        self._shown_state: TrainState | None = None
        self._size: tuple[int, int] | None = None
        self._views: set[str] = set()  # that have said that they are ready
        self._has_new_view = False
        self._under_way: deque[int] = deque()
        self._sent = self._heard = 0.0  # when
        self._id = 0
        self._job: _Job | None = None
        self._paces: dict[tuple[str, float], Pace] = {}  # by mode and seconds

    def resize(self, width: int, height: int) -> None:
        """The area's size in device pixels."""
        factor = min(1.0, LARGEST / max(width, height, 1))
        self._size = max(int(width * factor), 1), max(int(height * factor), 1)
        self.invalidate()

    def invalidate(self) -> None:
        """Forget what is shown: it has to be drawn again."""
        self.shown = self._job = None

    def hear(self) -> None:
        """Note that the page has said something."""
        self._heard = time.monotonic()

    def open(self, view: str) -> None:
        """The page's `view` says that it is ready; it may say so more than once."""
        if view in self._views:
            return
        self._views.add(view)
        self._has_new_view = True
        self._under_way.clear()
        self.invalidate()

    def take_new_view(self) -> bool:
        """Whether a view has opened since the last call: it has to be told everything."""
        has_new, self._has_new_view = self._has_new_view, False
        return has_new

    def answered(self, number: int) -> None:
        """The page has drawn frame `number`."""
        while self._under_way and self._under_way[0] <= number:
            self._under_way.popleft()

    @property
    def is_open(self) -> bool:
        """Whether a page has been seen."""
        return self._size is not None

    @property
    def pause(self) -> float | None:
        """Seconds until a page that does not answer may be tried again; None: no need to."""
        if self._size is None or len(self._under_way) < MOST_UNDER_WAY:
            return None
        return max(self._again() - time.monotonic(), 0.01)

    def wants(self, target: Target, state: TrainState, *, moving: bool, training: bool) -> bool:
        """Whether there is something to draw, and somebody to see it."""
        return self._is_ready() and self._plan(target, state, moving, training) is not None

    def draw(
        self, trainer: Trainer, target: Target, state: TrainState, *, moving: bool, training: bool
    ) -> Frame | None:
        """Draw a strip; return the picture if it is the last one."""
        plan = self._plan(target, state, moving, training)
        if plan is None or self._size is None:
            return None
        job = self._job
        if job is None or job.target is not target or (job.state is not state and not training):
            job = self._job = self._begin(trainer, target, state, plan)
        if plan == MOVING:
            # Messages wait until the picture is whole, or none would ever be finished.
            self._rows(job, job.camera.lens.height - job.rows)
        else:
            self._strip(job)
        if job.rows < job.camera.lens.height:
            return None
        self._job = None
        return self._finish(job)

    def _is_ready(self) -> bool:
        if self._size is None:
            return False
        return len(self._under_way) < MOST_UNDER_WAY or time.monotonic() >= self._again()

    def _again(self) -> float:
        """When one more picture is tried on a page that does not answer."""
        silence = self._sent - self._heard
        return self._sent + min(max(LOST, 0.2 * silence), RARELY)

    def _plan(
        self, target: Target, state: TrainState, moving: bool, training: bool
    ) -> float | None:
        """The seconds that the next picture may take; None if there is nothing new to see."""
        if self.shown is None or self.shown.target is not target:
            return MOVING
        if training:
            return None if state is self._shown_state else REFRESH
        is_done = self.shown.is_still and state is self._shown_state
        return None if is_done or moving else float("inf")

    def _begin(self, trainer: Trainer, target: Target, state: TrainState, seconds: float) -> _Job:
        assert self._size is not None
        full = target.fitted(*self._size)
        pace = self._pace(target, seconds) if seconds in GUESSES else None
        if pace:
            scale = pace.scale(full[0] * full[1])
        else:
            is_small = self.shown is not None and self.shown.scale < MIDDLE
            scale = MIDDLE if is_small else 1.0
        size = max(round(full[0] * scale), 1), max(round(full[1] * scale), 1)
        pictures = Pictures(trainer, state, target.look)
        return _Job(target, state, target.camera(*size), full, scale, pictures, pace, [])

    def _pace(self, target: Target, seconds: float) -> Pace:
        key = target.look.mode, seconds
        if key not in self._paces:
            self._paces[key] = Pace(seconds, GUESSES[seconds])
        return self._paces[key]

    def _strip(self, job: _Job) -> None:
        """Draw as many more rows as there is time for."""
        lens, pace = job.camera.lens, self._pace(job.target, STRIP)
        rows = min(pace.rows(lens.width), lens.height - job.rows)
        pace.learn(rows * lens.width, self._rows(job, rows))

    def _rows(self, job: _Job, rows: int) -> float:
        """Draw so many more rows; return the seconds that they took."""
        start = time.perf_counter()
        strip = replace(job.camera, lens=job.camera.lens.rows(job.rows, rows))
        job.strips.append(job.pictures.draw(strip, job.target.view.distance))
        seconds = time.perf_counter() - start
        job.seconds += seconds
        job.rows += rows
        return seconds

    def _finish(self, job: _Job) -> Frame:
        rgb, depth = (
            np.concatenate([getattr(strip, name) for strip in job.strips])
            for name in ("rgb", "depth")
        )
        lens, is_still = job.camera.lens, job.scale == 1.0
        if job.pace:
            job.pace.learn(lens.width * lens.height, job.seconds)
        content = {
            "kind": "frame",
            "width": job.full[0],
            "height": job.full[1],
            "pose": [float(number) for number in job.camera.pose.ravel()],
            "lens": relative(lens),
            "still": is_still,
            "scale": lens.width / job.full[0],
        }
        self.shown = Frame(
            content,
            encoded(rgb, QUALITY[is_still]),
            Drawn(rgb, depth),
            job.camera,
            job.target,
            job.scale,
        )
        self._shown_state = job.state
        return self.shown

    def send(self) -> int:
        """The number of the frame that is now under way to the page."""
        self._id += 1
        # A page that does not answer gets one picture at a time.
        while len(self._under_way) >= MOST_UNDER_WAY:
            self._under_way.popleft()
        self._under_way.append(self._id)
        self._sent = time.monotonic()
        return self._id


def relative(lens: Lens) -> list[float]:
    """Focal lengths and principal point in units of the picture's width and height."""
    width, height = lens.width, lens.height
    return [lens.fl_x / width, lens.fl_y / height, lens.cx / width, lens.cy / height]
