"""Common interface of nerfmac and the PyTorch implementation for `torch_peer.compare`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import mlx.core as mx
import numpy as np
from model_curves import BACKGROUND

from nerfmac.app.run import Run, Training
from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device
from nerfmac.common import Float32Array, InputError
from nerfmac.config import Config
from nerfmac.geometry import Camera, Rays
from nerfmac.training.goal import Goal

TORCH_DEVICES = {"metal": "mps", "cuda": "cuda", "cpu": "cpu"}
"""PyTorch device names, keyed by nerfmac device name."""


class Window(NamedTuple):
    """Section of the training. At its end, the device is idle."""

    steps: int
    seconds: float
    samples_per_second: float


class Implementation(Protocol):
    """Interface of an implementation that trains a field. `step` and `seconds` are the totals of
    the training so far."""

    name: str
    step: int
    seconds: float
    build_seconds: float

    def train(self) -> Window:
        """Train until the next occupancy update has finished, or until the time is over.

        At the end, the device is idle. The training time excludes compiling and the time between
        two calls.
        """

    def render(self, camera: Camera) -> Float32Array:
        """Render an image over `BACKGROUND`."""

    def tracer(self, rays: Rays) -> Callable[[], None]:
        """Return a function that computes the colors of rays and waits for the result."""


class Nerfmac:
    """Training with nerfmac, in a `Run`."""

    name = "nerfmac"

    def __init__(self, config: Config, scene: Scene, seconds: float) -> None:
        """Compile the computations. `seconds` is the training time."""
        training = Training(Run.begin(scene, config))
        deque(training.prepare(), maxlen=0)
        self._run = training.run
        self.build_seconds = self._run.build_seconds
        self._reports = training.fit(Goal(seconds=seconds))
        self.step, self.seconds = 0, 0.0

    def train(self) -> Window:
        """See `Implementation`. If a step with another number of rays is traced, this counts as
        training time."""
        report = next(self._reports)
        after = report.state
        steps, seconds = after.step - self.step, after.train_seconds - self.seconds
        self.step, self.seconds = after.step, after.train_seconds
        return Window(steps, seconds, report.samples_per_second)

    def render(self, camera: Camera) -> Float32Array:
        """See `Implementation`."""
        return self._run.renderer().render(camera, BACKGROUND).color

    def tracer(self, rays: Rays) -> Callable[[], None]:
        """See `Implementation`."""
        renderer = self._run.renderer()
        return lambda: mx.eval(renderer.see(rays))


class Torch:
    """Training with `TorchPeer`, with the same clock as nerfmac."""

    name = "torch"

    def __init__(
        self, config: Config, scene: Scene, seconds: float, *, compiled: bool = True
    ) -> None:
        """Compile the computations if `compiled` is True. `seconds` is the training time.

        Raises `InputError` if PyTorch is not installed.
        """
        try:
            import torch
        except ModuleNotFoundError as error:
            raise InputError(
                "PyTorch is not installed; install it with `pip install torch`"
            ) from error
        from torch_peer.peer import TorchPeer

        device = TORCH_DEVICES[current_device()]
        views = scene.views("train")
        self._peer = TorchPeer(config, scene.extent, views, device, compiled=compiled)
        self._limit = seconds
        self.version, self.note = str(torch.__version__), self._peer.note
        self.build_seconds = self._peer.build_seconds
        self.step, self.seconds = 0, 0.0

    def train(self) -> Window:
        """See `Implementation`."""
        peer, start = self._peer, time.perf_counter()
        passed, is_over = 0.0, False
        while not is_over:
            is_over = peer.is_update
            peer.step(min((self.seconds + passed) / self._limit, 1.0))
            passed = time.perf_counter() - start
            is_over = is_over or self.seconds + passed >= self._limit
        samples = peer.samples_last_step  # this waits for the device
        steps, seconds = peer.steps - self.step, time.perf_counter() - start
        self.step, self.seconds = peer.steps, self.seconds + seconds
        return Window(steps, seconds, samples * steps / seconds)

    def render(self, camera: Camera) -> Float32Array:
        """See `Implementation`."""
        return self._peer.render(camera, BACKGROUND)

    def tracer(self, rays: Rays) -> Callable[[], None]:
        """See `Implementation`."""
        origins, directions = (self._peer.tensor(np.array(part)) for part in rays)

        def trace() -> None:
            self._peer.infer(origins, directions)
            self._peer.sync()

        return trace
