"""`Session`: what one viewer shows and trains, with the actions of its page and notebook.

It is independent of the widget and does nothing by itself: `Loop` draws and trains, `messages` maps
the page's messages to actions, and `Status` reports to the page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from math import radians
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.run import Run
from nerfmac.viewer.camera.film import Cancelled, Film
from nerfmac.viewer.camera.navigation import View
from nerfmac.viewer.camera.studio import Studio
from nerfmac.viewer.pictures.comparison import Comparison
from nerfmac.viewer.pictures.modes import Pictures
from nerfmac.viewer.screen.screen import Screen, Target
from nerfmac.viewer.session.settings import Settings
from nerfmac.viewer.session.training import Training
from nerfmac.viewer.worker import Worker

Message = dict[str, Any]
Send = Callable[[Message, list[bytes]], None]

HELD_STILL = 0.5
"""Seconds without a move after which a pointer that is still down no longer counts as moving."""


class Session:
    """One run in a viewer. Everything here is for the worker's thread only."""

    def __init__(self, worker: Worker, run: Run, send: Send) -> None:
        """`send` takes messages for the page, with the bytes that go with them."""
        self.run = run
        self.name = Path(run.scene.path).name if run.scene.path else "scene"
        self.settings = Settings()
        self.training = Training(run)
        self.home = self.view = View.initial(run.scene.cameras, run.scene.up)
        self.studio = Studio(run)
        self.screen = Screen()
        self.comparison: Comparison | None = None
        self.notice: str | None = None
        """A message that the page shows, such as an error."""
        self.is_resting = threading.Event()
        """Set while nothing is trained; any thread may wait for it."""
        self.is_resting.set()
        self.failure: Exception | None = None
        """What ended training, if it was not the limit."""
        self.moving_until = 0.0
        """The `time.monotonic()` until which the camera counts as moving."""
        self.send = send
        self._worker = worker
        self._target: Target | None = None

    def target(self) -> Target:
        """What the page should show; the same object until something in it changes."""
        if self._target is None:
            standing = self.comparison.camera if self.comparison else None
            self._target = Target(self.view, self.settings.look, standing)
        return self._target

    def pictures(self) -> Pictures:
        """Draws the run's current state by the current settings."""
        return Pictures(self.run.trainer, self.run.state, self.settings.look)

    def go(self, view: View) -> None:
        """Look from `view`; that ends a comparison."""
        self.view, self.comparison, self._target = view, None, None

    def move(self, view: View, *, is_moving: bool) -> None:
        """Look from `view`; `is_moving` says whether more moves are to come."""
        self.go(view)
        self.moving_until = time.monotonic() + HELD_STILL if is_moving else 0.0

    def stand(self, index: int) -> Comparison:
        """Look from training view `index`, beside its photograph. Raises `InputError`."""
        comparison = Comparison.of(self.run, index, self.settings.look.background)
        self.go(self.view.stand(comparison.camera.pose))
        self.comparison = comparison
        return comparison

    def set(self, **values: Any) -> None:
        """Change settings, and `fov` in degrees. Raises `InputError`."""
        if "fov" in values:
            fov = values.pop("fov")
            checks.number("fov", fov, low=10.0, high=120.0)
            self.go(self.view.with_fov(radians(fov)))
        self.settings = self.settings.changed(values)
        goal = self.training.goal
        goal.steps, goal.seconds = self.settings.steps, self.settings.seconds
        goal.rate, goal.most_rays = self.settings.rate, self.settings.rays
        self._target = None

    def start(self) -> None:
        """Train from now on. Raises `InputError`."""
        self.training.start()
        self.failure, self.notice = None, None
        self.is_resting.clear()

    def refine(self, **switches: bool) -> None:
        """Choose what training corrects of its views, before it begins. Raises `InputError`."""
        if self.training.is_running:
            raise InputError("what training corrects of its views is chosen before it begins")
        self.run.refine(**switches)

    def view_names(self) -> list[str]:
        """The training views' names; numbers where the pictures are gone but not the cameras."""
        try:
            return [frame.name for frame in self.run.pictures().splits["train"]]
        except InputError:
            return [f"view {index}" for index in range(len(self.run.scene.cameras))]

    def film(self, name: str, seconds: float, fps: float, size: tuple[int, int]) -> Film:
        """A film of the run's current state by the current settings, not started yet.

        Raises `InputError`.
        """
        pictures, focus = self.pictures(), self.view.distance

        def render(camera: Camera) -> Future[np.ndarray]:
            return self._worker.submit(lambda: pictures.draw(camera, focus).rgb)

        film = self.studio.begin(name, seconds, fps, size, render)
        film.result.add_done_callback(lambda _: self._worker.submit(lambda: self._filmed(film)))
        return film

    def _filmed(self, film: Film) -> None:
        """Send the page a finished film, or tell it why there is none."""
        error = film.result.exception()
        if error is None:
            self.send({"kind": "video", "name": film.path.name}, [film.path.read_bytes()])
        elif not isinstance(error, Cancelled):
            self.notice = str(error)
