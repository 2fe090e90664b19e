"""`Session`: one viewer without its widget: messages in, messages out, turns in between.

The page and the notebook post messages from any thread; here they are taken up one after the other
on the worker's thread, and only there is anything trained or drawn. Moves that came meanwhile are
all taken before the next picture, so it is always the newest camera that is seen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from math import radians
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.run import Run
from nerfmac.training.trainer import DivergedError, Trainer
from nerfmac.viewer.camera.film import Cancelled, Film
from nerfmac.viewer.camera.navigation import View
from nerfmac.viewer.camera.studio import Studio
from nerfmac.viewer.pictures.comparison import Comparison
from nerfmac.viewer.pictures.modes import Pictures
from nerfmac.viewer.screen.jpeg import encoded, padded
from nerfmac.viewer.screen.pace import Shares
from nerfmac.viewer.screen.screen import QUALITY, Screen, Target
from nerfmac.viewer.session.messages import handle
from nerfmac.viewer.session.settings import Settings
from nerfmac.viewer.session.status import Status
from nerfmac.viewer.training.training import Training
from nerfmac.viewer.worker import Worker

log = logging.getLogger("nerfmac")

Message = dict[str, Any]
Send = Callable[[Message, list[bytes]], None]

TURN = {True: 0.02, False: 0.1}
"""Seconds of training between two looks at the messages, while the camera moves and at rest."""

REST = 0.5
"""Seconds without a move after which a button that is held down no longer counts as moving."""

POSTCARD = 640, 480
"""Pixels of the picture that is kept when no page was open."""

LARGEST_SHARE = 0.95
"""Of the device for training: even then a picture comes now and then."""


class Session:
    """Shows and trains one run. All but `post` is for the worker's thread only."""

    def __init__(
        self,
        worker: Worker,
        run: Run,
        send: Send,
        keep: Callable[[bytes], None],
        out: Path | None,
    ) -> None:
        """`send` takes messages for the page, `keep` pictures to be seen when there is no kernel,
        as JPEG; `out` as in `Training`."""
        self.run = run
        self.name = Path(run.scene.path).name if run.scene.path else "scene"
        self.settings = Settings()
        self.training = Training(run, out)
        self.home = self.view = View.initial(run.scene.cameras, run.scene.up)
        self.studio = Studio(run)
        self.screen = Screen()
        self.notice: str | None = None
        self.is_resting = threading.Event()
        """Set while nothing is trained."""
        self.is_resting.set()
        self.failure: Exception | None = None
        """What ended training, if it was not the limit."""
        self.send, self._keep = send, keep
        self._unkept: bytes | None = None  # the last finished picture, until it is kept
        self.comparison: Comparison | None = None
        self._worker = worker
        self._messages: deque[Message] = deque()
        self._target: Target | None = None
        self._failed: Target | None = None  # could not be drawn
        self._shares = Shares()
        self._status = Status(self)
        self._moving_until = 0.0
        self._asked: float | None = None  # the newest `t` that no frame has answered

    def post(self, message: Message) -> None:
        """Take up a message soon; any thread."""
        self._messages.append(message)
        self._worker.wake(self)

    def turn(self) -> float | None:
        """As `worker.Activity`."""
        while self._messages:
            self._attempt(partial(self._take, self._messages.popleft()))
        is_training, is_moving = self.training.is_running, time.monotonic() < self._moving_until
        share = min(self.settings.share, LARGEST_SHARE) * (0.5 if is_moving else 1.0)
        target = self.target()
        wants = target is not self._failed and self.screen.wants(
            target, self.run.state, moving=is_moving, training=is_training
        )
        start = time.perf_counter()
        if wants and (not is_training or self._shares.viewing_is_due(share)):
            if self._attempt(lambda: self._draw(target, is_moving)):
                self._failed = target  # once is enough
            self._shares.spend(time.perf_counter() - start, training=False)
        elif is_training:
            self.failure = self._attempt(lambda: self.training.turn(TURN[is_moving]))
            self._shares.spend(time.perf_counter() - start, training=True)
        if wants or self.training.is_running:
            self._status.tell()
            return 0.0
        self._attempt(self._rest)
        rest = self._moving_until - time.monotonic() if is_moving else None
        pauses = (self._status.tell(), self.screen.pause, rest)
        return min((max(pause, 0.0) for pause in pauses if pause is not None), default=None)

    def target(self) -> Target:
        """What the page should show."""
        if self._target is None:
            standing = self.comparison.camera if self.comparison else None
            self._target = Target(self.view, self.settings.look, standing)
        return self._target

    def go(self, view: View) -> None:
        """Look from there; that ends a comparison."""
        self.view, self.comparison, self._target = view, None, None

    def stand(self, index: int) -> Comparison:
        """Look from training view `index`, beside its photograph. Raises `InputError`."""
        comparison = Comparison.of(self.run, index, self.settings.look.background)
        self.go(self.view.stand(comparison.camera.pose))
        self.comparison = comparison
        return comparison

    def move(self, view: View, *, is_moving: bool) -> None:
        """Look from there, and expect more of it, or not."""
        self.go(view)
        self._moving_until = time.monotonic() + REST if is_moving else 0.0

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
        self._worker.wake(self)

    def view_names(self) -> list[str]:
        """The training views', as far as they are known."""
        try:
            return [frame.name for frame in self.run.pictures().splits["train"]]
        except InputError:  # the pictures are gone; the cameras are not
            return [f"view {index}" for index in range(len(self.run.scene.cameras))]

    def introduce(self) -> None:
        """Tell a page that has just opened everything."""
        self._status.introduce()

    def film(self, name: str, seconds: float, fps: float, size: tuple[int, int]) -> Film:
        """A film of the run as it stands and looks, not started yet. Raises `InputError`."""
        pictures = Pictures(self.run.trainer, self.run.state, self.settings.look)
        focus = self.view.distance

        def render(camera: Camera) -> Future[np.ndarray]:
            return self._worker.submit(lambda: pictures.draw(camera, focus).rgb)

        film = self.studio.begin(name, seconds, fps, size, render)
        film.result.add_done_callback(lambda _: self._worker.submit(lambda: self._filmed(film)))
        return film

    def _filmed(self, film: Film) -> None:
        error = film.result.exception()
        if error is None:
            self.send({"kind": "video", "name": film.path.name}, [film.path.read_bytes()])
        elif not isinstance(error, Cancelled):
            self.notice = str(error)
        self._worker.wake(self)

    def snapshot(self) -> Run:
        """The run as it stands, for use on any thread."""
        state = self.run.state
        mx.eval(state.arrays())
        trainer = Trainer(self.run.config, self.run.scene.extent)
        curve = self.training.history.curve(len(self.training.history.points) or 1)
        return replace(self.run, trainer=trainer, state=state, curve=curve)

    def _rest(self) -> None:
        """Nothing is trained and all is drawn."""
        if not self.is_resting.is_set() and not self.screen.is_open:
            size = self.target().fitted(*POSTCARD)
            pictures = Pictures(self.run.trainer, self.run.state, self.settings.look)
            drawn = pictures.draw(self.target().camera(*size), self.view.distance)
            self._unkept = encoded(drawn.rgb, QUALITY[True])
        if self._unkept is not None:
            self._keep(self._unkept)
            self._unkept = None
        self.is_resting.set()

    def _take(self, message: Message) -> None:
        self.screen.hear()
        if isinstance(asked := message.get("t"), int | float):
            self._asked = float(asked)
        handle(self, message)

    def _attempt(self, action: Callable[[], None]) -> Exception | None:
        """Do it; what goes wrong is returned, shown on the page, and stops nothing else."""
        try:
            action()
        except (InputError, DivergedError, OSError) as error:
            self.notice = str(error)
            return error
        except Exception as error:
            log.exception("the viewer failed")
            self.notice = f"{type(error).__name__}: {error}"
            return error
        return None

    def _draw(self, target: Target, is_moving: bool) -> None:
        frame = self.screen.draw(
            self.run.trainer,
            target,
            self.run.state,
            moving=is_moving,
            training=self.training.is_running,
        )
        if frame is None:
            return
        if frame.is_still:
            self._unkept = frame.jpeg
        comparison = self.comparison
        is_measured = comparison and frame.is_still and self.settings.mode == "colour"
        answer = {
            "id": self.screen.send(),
            "t": self._asked,
            "compared": comparison.index if comparison else None,
            "psnr": comparison.psnr(frame.drawn.rgb) if comparison and is_measured else None,
        }
        self._asked = None
        self.send({**frame.content, **answer}, padded(frame.jpeg))
