"""`Session`, the state of a viewer and the actions that the page and the notebook can request.

A session starts no work by itself. `Loop` draws images and trains, the module `messages` maps
messages from the page to actions, and `Status` sends the state to the page.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from math import radians
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.paths.view import View
from nerfmac.app.run import HeldOut, Run, Training
from nerfmac.app.viewer.crop_box import Corners, initial_crop_box
from nerfmac.app.viewer.exporting import Export
from nerfmac.app.viewer.images import Images, PhotoComparison
from nerfmac.app.viewer.live_training import LiveTraining
from nerfmac.app.viewer.path_editor import Canceled, PathEditor, VideoJob
from nerfmac.app.viewer.preview import Preview
from nerfmac.app.viewer.screen import Screen
from nerfmac.app.viewer.screen_image import Target
from nerfmac.app.viewer.worker import Worker
from nerfmac.common import InputError, checks
from nerfmac.config.rendering import DIAGNOSTICS, EXTRA, Box, RenderOptions
from nerfmac.geometry import Camera

Message = dict[str, Any]
Send = Callable[[Message, list[bytes]], None]

HELD_STILL = 0.5
"""Maximum time in seconds between two moves of a moving camera, even if the pointer is still
pressed."""
FRUSTUM_SIZE = 0.06
"""Depth of the frusta of cameras and keyframes, relative to the distance of the cameras from the
scene center (median)."""
FRUSTUM_IN_SUBJECT = 0.3  # Maximum depth of these frusta, relative to the radius of the subject.
TRIAL_FRAMES = 4  # Number of small frames that are rendered to estimate the time for a video.
TRIAL_SCALE = 0.2  # Width and height of these frames, relative to the default size of a video.
PHOTOS = 8  # Number of thumbnails in a message.
UP = {
    **{"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)},
    **{"-x": (-1.0, 0.0, 0.0), "-y": (0.0, -1.0, 0.0), "-z": (0.0, 0.0, -1.0)},
}
"""Up directions along the axes of the scene."""
HEX_COLOR = re.compile("#[0-9a-fA-F]{6}")
OUTPUT_OF_MODE = {
    "color": "rgb",
    "depth": "depth",
    "normals": "normal",
    "opacity": "opacity",
    **{output: output for output in DIAGNOSTICS},
}
"""`RenderOptions.output` of each viewer mode."""


TRAINING_SETTINGS = {"share", "rate", "rays", "steps", "seconds"}
"""Settings that do not change the content of the image."""


@dataclass(frozen=True)
class Settings:
    """Values of the controls of the page, except for the camera. Field names are the JSON keys."""

    mode: str = "color"
    background: str = "#ffffff"
    exposure: float = 0.0  # Exposure compensation in stops.
    crop: Box | None = None  # Lowest and highest corner in scene coordinates.
    resolution: int | None = None  # Maximum length of the longer side of an image in pixels.
    up: str = "scene"  # Up direction: a key of `UP`, `scene`, or `view`.
    share: float = 0.7  # Fraction of the device time for training, halved while the camera moves.
    rate: float = 1.0  # Factor for the learning rate.
    rays: int | None = None  # Maximum number of rays per step.
    steps: int | None = None  # Total number of steps after which training stops.
    seconds: float | None = None  # Total training time in seconds after which training stops.

    def __post_init__(self) -> None:
        if not str(self.mode).startswith(EXTRA):
            checks.choice("mode", self.mode, OUTPUT_OF_MODE)
        checks.choice("up", self.up, ("scene", *UP, "view"))
        if not (isinstance(self.background, str) and HEX_COLOR.fullmatch(self.background)):
            raise InputError(
                f"background is {self.background!r}; expected a hexadecimal color such as '#ffffff'"
            )
        checks.number("exposure", self.exposure, low=-4.0, high=4.0)
        checks.number("share", self.share, low=0.0, high=1.0)
        checks.number("rate", self.rate, low=0.1, high=10.0)
        checks.optional_number("resolution", self.resolution, low=64, high=8192, whole=True)
        for name in ("rays", "steps"):
            checks.optional_number(name, getattr(self, name), low=1, high=2**31, whole=True)
        checks.optional_number("seconds", self.seconds, low=1e-3)
        object.__setattr__(self, "crop", self.options.crop)  # `options` checks the box.

    def changed(self, values: dict[str, Any]) -> Settings:
        """Return a copy with new values for some settings."""
        names = {field.name for field in fields(self)}
        for name in values:
            checks.choice("setting", name, names)
        return replace(self, **values)

    @property
    def rgb_background(self) -> tuple[float, float, float]:
        """Background color (red, green, blue) as sRGB in [0, 1]."""
        red, green, blue = (int(self.background[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
        return red, green, blue

    @property
    def options(self) -> RenderOptions:
        """Content and appearance of the images."""
        output = OUTPUT_OF_MODE.get(self.mode, self.mode)
        return RenderOptions(output, self.rgb_background, exposure=self.exposure, crop=self.crop)


def _hex(color: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255.0 * channel):02x}" for channel in color)


class Session:
    """State of a viewer and of its run. Only the worker thread may use a session."""

    def __init__(self, worker: Worker, shown: Training | Preview, send: Send) -> None:
        self.training = LiveTraining(shown)
        run = self.run
        self.name = run.name
        self._backdrop = _hex(run.scene.backdrop)
        self.settings = Settings(background=self._backdrop)
        self._scene_up = run.scene.up
        self.home = self.view = View.initial(run.scene.cameras, run.scene.up, run.scene.subject)
        self.version = 0  # Number of changes of the view that were not moves on a page.
        self.mover: str | None = None
        """Name of the page where the user last moved the view, or None if it changed otherwise."""
        self.path_editor = PathEditor(lambda: self.run)
        self.pace: float | None = None
        """Estimated rendering time of a video in seconds per pixel, or None if it is unknown."""
        self.screen = Screen()
        self.comparison: PhotoComparison | None = None
        self.held_out: HeldOut | None = None  # Last measured quality on held-out views.
        self.measured: tuple[int, int] | None = None
        """Number of compared and of all views of the measurement that is running, or None."""
        self._measurement: Generator[tuple[int, int], None, HeldOut] | None = None
        self.photos: Iterator[tuple[int, bytes]] | None = None
        """Numbers and thumbnails of the photos that the page waits for."""
        self.export: Export | None = None  # Export that is waiting or running.
        self.exported: str | None = None  # File of the last export, and its size.
        self.notice: str | None = None
        """Line of text that the page shows, such as an error message."""
        self.is_resting = threading.Event()
        """Event that is set while training is not running. Any thread may wait for it."""
        self.is_resting.set()
        self.failure: Exception | None = None  # Exception that stopped training, or None.
        self.moving_until = 0.0
        """Time until which the camera counts as moving, as a value of `time.monotonic()`."""
        self.send = send
        self._worker = worker
        self._target: Target | None = None

    @property
    def run(self) -> Run:
        """The run that the viewer shows."""
        return self.training.run

    def target(self) -> Target:
        """Return the content that the page should show: the same object until it changes."""
        # Decoding the images may change the mean color and therefore the backdrop.
        if (backdrop := _hex(self.run.scene.backdrop)) != self._backdrop:
            if self.settings.background == self._backdrop:
                self.set(background=backdrop)
            self._backdrop = backdrop
        if self._target is None:
            training_camera = self.comparison.camera if self.comparison else None
            options, subject = self.settings.options, self.run.scene.subject
            resolution = self.settings.resolution
            self._target = Target(self.view, options, training_camera, subject, resolution)
        return self._target

    def images(self) -> Images:
        """Return a renderer of viewer images for the current state of the run."""
        return Images(self.run.model, self.run.state, self.settings.options, self.run.scene.subject)

    def go(self, view: View, page: str | None = None) -> None:
        """Change the view and end a photo comparison. `page` is the page where the user moved the
        camera, or None if all pages must show the view."""
        self.version += page is None
        self.view, self.mover, self.comparison, self._target = view, page, None, None

    def hold(self, *, is_moving: bool) -> None:
        """Record whether the camera moves. It counts as moving for at most `HELD_STILL` seconds."""
        self.moving_until = time.monotonic() + HELD_STILL if is_moving else 0.0

    def compare(self, index: int) -> PhotoComparison:
        """Move to the camera of training view `index` and start the comparison with its photo. In
        the mode `depth`, the depth that a sensor has measured replaces the photo."""
        comparison = PhotoComparison.of(self.run, index, self.settings.rgb_background)
        self.go(self.view.stand(comparison.camera.pose))
        if self.settings.mode == "depth":
            shown = self.settings.options, self.view.distance
            comparison = comparison.with_measured_depth(self.run, *shown)
        self.comparison = comparison
        return comparison

    def set(self, **values: Any) -> None:
        """Change settings, and `fov`, the vertical field of view in degrees."""
        if "fov" in values:
            fov = values.pop("fov")
            checks.number("fov", fov, low=10.0, high=120.0)
            self.go(self.view.with_fov(radians(fov)))
        if str(values.get("mode")).startswith(EXTRA):
            checks.choice("mode", values["mode"], self.extra_modes)
        self.settings = self.settings.changed(values)
        if "up" in values:
            self._turn_up()
        goal = self.training.goal
        goal.steps, goal.seconds = self.settings.steps, self.settings.seconds
        goal.rate, goal.max_rays = self.settings.rate, self.settings.rays
        if values.keys() - TRAINING_SETTINGS:
            self._target = None

    @property
    def extra_modes(self) -> list[str]:
        """Modes that show the additional outputs of the field."""
        return [EXTRA + name for name in self.run.model.field.extras]

    def _turn_up(self) -> None:
        """Change the up direction of the view, of camera paths, and of the run to the setting."""
        name, run = self.settings.up, self.run
        x, y, z = self.view.pose[:, 1].tolist()
        up = {**UP, "scene": self._scene_up, "view": (x, y, z)}[name]
        run.scene = replace(run.scene, up=up)
        self.home = View.initial(run.scene.cameras, run.scene.up, run.scene.subject)
        self.go(replace(self.view, up=np.array(up)).look_at(self.view.center))
        self.__dict__.pop("crop_box", None)

    def train(self, steps: int | None, seconds: float | None) -> None:
        """Train up to a total number of steps, and for additional `seconds`. None means no
        limit."""
        state = self.run.state
        if steps is not None and steps <= state.step:
            raise InputError(
                f"the run has already been trained for {state.step} steps; steps={steps} is the "
                "total at which training stops and must be larger"
            )
        if seconds is not None:
            checks.number("seconds", seconds, low=1e-3)
            seconds += state.train_seconds
        self.set(steps=steps, seconds=seconds)
        self.start()

    @property
    def unsaved_steps(self) -> int:
        """Number of training steps that are not saved in any folder."""
        return self.training.unsaved_steps

    def save(self, folder: str | Path) -> None:
        """Save the current run in a run folder."""
        self.training.save(folder)

    def send_photos(self) -> None:
        """Send the next thumbnails to the page."""
        assert self.photos is not None
        batch = list(islice(self.photos, PHOTOS))
        if len(batch) < PHOTOS:
            self.photos = None
        if batch:
            message = {"kind": "thumbnails", "first": batch[0][0]}
            self.send(message, [jpeg for _, jpeg in batch])

    def begin_export(self, kind: str, path: Path) -> None:
        """Export the scene to a new file, before training continues."""
        if self.export is not None:
            raise InputError("another export is running; wait for it or cancel it")
        self.export, self.exported = Export(kind, path), None

    def run_export(self, breathe: Callable[[], None]) -> None:
        """Write the file of the export, and call `breathe` between its steps."""
        job, settings = self.export, self.settings
        assert job is not None
        try:
            job.run(self.run, settings.crop, settings.rgb_background, breathe)
            self.exported = f"{job.path} ({job.path.stat().st_size / 1e6:.1f} MB)"
        except Canceled:
            pass
        finally:
            self.export = None

    @cached_property
    def frustum_size(self) -> float:
        """Depth of the frusta of cameras and keyframes, in scene units."""
        eyes = np.stack([camera.pose[:, 3] for camera in self.run.scene.cameras])
        size = FRUSTUM_SIZE * float(np.median(np.linalg.norm(eyes - 0.5, axis=1)))
        subject = self.run.scene.subject
        return size if subject is None else min(size, FRUSTUM_IN_SUBJECT * subject.radius)

    def estimate(self) -> None:
        """Measure the rendering time of a video along the camera path."""
        images, focus = self.images(), self.view.distance
        width, height = (round(TRIAL_SCALE * side) for side in self.path_editor.sizes[0])
        first, *others = self.path_editor.film.cameras(TRIAL_FRAMES, (width, height))
        images.draw(first, focus)  # Compiles functions for images of this size.
        start = time.perf_counter()
        for camera in others:
            images.draw(camera, focus)
        self.pace = (time.perf_counter() - start) / (width * height * len(others))

    @cached_property
    def crop_box(self) -> Corners | None:
        """Initial crop box in scene coordinates, or None for the whole scene cube."""
        return initial_crop_box(self.run)

    def measure(self) -> None:
        """Start to measure the PSNR on held-out views. Another measurement is not started while one
        is running."""
        self._measurement = self._measurement or HeldOut.measuring(self.run, self.held_out)
        self.measure_view()

    def measure_view(self) -> None:
        """Compare the next held-out view with its photo."""
        assert self._measurement is not None
        try:
            self.measured = next(self._measurement)
        except BaseException as end:
            self._measurement = self.measured = None
            if not isinstance(end, StopIteration):
                raise
            self.held_out = end.value

    def start(self) -> None:
        """Start training. Raises `InputError` if training has reached its limit."""
        self.training.start()
        self.screen.drop()
        self.failure, self.notice = None, None
        self.is_resting.clear()

    def pause(self) -> None:
        """Pause training and save the run."""
        self.training.pause()
        self.screen.drop()

    def refine(self, **switches: bool) -> None:
        """Enable or disable refinements before training starts."""
        self.training.refine(**switches)

    def view_names(self) -> list[str]:
        """Return the names of the training views, or numbers if the images cannot be read."""
        try:
            return [frame.name for frame in self.run.images().splits["train"]]
        except InputError:
            return [f"view {index}" for index in range(len(self.run.scene.cameras))]

    def begin_video(self, name: str, seconds: float, fps: float, size: tuple[int, int]) -> VideoJob:
        """Create a video job of the current state, not yet started (see `PathEditor`)."""
        images, focus = self.images(), self.view.distance

        def render(camera: Camera) -> Future[np.ndarray]:
            return self._worker.submit(lambda: images.draw(camera, focus).rgb)

        job = self.path_editor.begin_video(name, seconds, fps, size, render)
        job.result.add_done_callback(lambda _: self._worker.submit(lambda: self._finish_video(job)))
        return job

    def _finish_video(self, job: VideoJob) -> None:
        """Send the finished video to the page, or show its error as a notice."""
        error = job.result.exception()
        if error is None:
            self.send({"kind": "video", "name": job.path.name}, [job.path.read_bytes()])
        elif not isinstance(error, Canceled):
            self.notice = str(error)
