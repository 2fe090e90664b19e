"""`Session`, the state of a viewer: its run, its training, its jobs, and its open pages.

A session starts no work by itself. `Loop` draws images and trains, and the module `messages` maps
messages from the pages to actions.
"""

from collections.abc import Callable
from dataclasses import replace
from math import radians
from typing import Any

from nerfmac.app.paths.view import View
from nerfmac.app.run import Run, Training
from nerfmac.app.viewer.images import Images
from nerfmac.app.viewer.jobs import Jobs
from nerfmac.app.viewer.live_training import LiveTraining, Preview
from nerfmac.app.viewer.open_page import OpenPage, Send
from nerfmac.app.viewer.pace import Pace
from nerfmac.app.viewer.path_editor import Canceled, VideoJob
from nerfmac.app.viewer.screen import Screen
from nerfmac.app.viewer.settings import RANGES, Display, Settings, check_ranges, hex_color
from nerfmac.app.viewer.shown_scene import ShownScene
from nerfmac.app.viewer.worker import Worker
from nerfmac.common import InputError, checks
from nerfmac.config.rendering import EXTRA

CONTINUED = 60.0
"""Minimum time in seconds for which a run without a limit continues if its rate has decayed."""


class Session:
    """State of a viewer. Only the worker thread may use a session."""

    def __init__(self, worker: Worker, shown: Training | Preview, send: Send) -> None:
        self.training = training = LiveTraining(shown)
        self.scene, self.pace = ShownScene(training), Pace()
        self.jobs = Jobs(training, worker, self._tell)
        self.send = send
        self.pages: dict[str, OpenPage] = {}  # By name.
        self.settings = Settings()
        self.view = self.scene.home
        self.display = Display(background=hex_color(self.run.scene.backdrop))
        """View and content of the page that was used last. The next page begins with them."""
        self.notice: str | None = None
        """Line of text that the pages show, such as an error message."""

    @property
    def run(self) -> Run:
        """The run that the pages show (see `LiveTraining.run`)."""
        return self.training.run

    def open(self, name: str, *, warps: bool) -> OpenPage:
        """Add a page."""
        screen = Screen(self.training, self.pace, warps=warps)
        page = OpenPage(name, screen, self.view, self.display, self.send)
        page.crop = self.settings.crop
        self.pages[name] = page
        return page

    def introduce(self, page: OpenPage) -> None:
        """Send a new page everything that does not change, and the state."""
        page.send({"kind": "ranges", "ranges": RANGES})
        page.send({**self.scene.cameras(), "sizes": self.jobs.path_editor.sizes})
        self.tell(page, is_busy=True)

    def tell(self, page: OpenPage, *, is_busy: bool) -> float:
        """Send the state to a page if it has changed (see `OpenPage.tell`)."""
        return page.tell(lambda: self.status(page), is_busy=is_busy)

    def change_views(self, change: Callable[[View], View]) -> None:
        """Change the views of all pages."""
        self.view = change(self.view)
        for page in self.pages.values():
            page.ask(change(page.view))

    def images(self, page: OpenPage | None = None) -> tuple[Images, float]:
        """Return a renderer of the current state, with the content of `page` or of the page that
        was used last, and the distance of the center of its view."""
        shown = page or self
        options, subject = shown.display.options(self.settings.crop), self.run.scene.subject
        return Images(self.run.model, self.run.state, options, subject), shown.view.distance

    def set(self, values: dict[str, Any], page: OpenPage | None = None) -> None:
        """Change settings. Settings of the content, and `fov`, the vertical field of view in
        degrees, change on `page` or, by default, on all pages."""
        own = {name: value for name, value in values.items() if name in vars(self.display)}
        shared = {name: value for name, value in values.items() if name not in own}
        fov = shared.pop("fov", None)
        check_ranges(fov=fov)
        for name in shared:
            checks.choice("setting", name, ("fov", *vars(self.display), *vars(self.settings)))
        if (mode := str(own.get("mode"))).startswith(EXTRA):
            checks.choice("mode", mode, self.scene.extra_modes)
        settings = replace(self.settings, **shared)
        self.display = replace(page.display if page else self.display, **own)
        self.settings = settings
        goal = self.training.goal
        goal.steps, goal.seconds = settings.steps, settings.seconds
        goal.rate, goal.max_rays = settings.rate, settings.rays
        for each in self.pages.values() if own or "crop" in shared else ():
            display = replace(each.display, **own) if page in (None, each) else each.display
            each.show(display, settings.crop)
        if fov is not None:
            self.change_views(lambda view: view.with_fov(radians(fov)))
        if "up" in shared:
            self.scene.turn_up(settings.up, (page or self).view)
            self.change_views(self.scene.turned)

    def train(self, steps: int | None, seconds: float | None) -> None:
        """Train up to a total number of steps, and for additional `seconds`. None means no
        limit."""
        state = self.run.state
        if steps is not None and steps <= state.step:
            raise InputError(
                f"the run has already been trained for {state.step} steps; steps={steps} is the "
                "total at which training stops and must be larger"
            )
        check_ranges(seconds=seconds)
        self.set({"steps": steps, "seconds": seconds and seconds + state.train_seconds})
        self.start()

    def start(self) -> None:
        """Start training. Raises `InputError` if training has reached its limit. A run whose
        learning rate has decayed trains for `CONTINUED` seconds or as long as so far, so that the
        rate rises and decays again."""
        state, optimizer = self.run.state, self.run.config.optimizer
        if not self.training.goal.has_end and state.train_frac > optimizer.hold:
            more = max(CONTINUED, state.train_seconds)
            self.set({"seconds": state.train_seconds + more})
        self.training.start()
        self.notice = None

    def _tell(self, job: VideoJob) -> None:
        """Send the finished video to the pages, or show its error as a notice."""
        error = job.result.exception()
        if error is None:
            self.send({"kind": "video", "name": job.path.name}, [job.path.read_bytes()])
        elif not isinstance(error, Canceled):
            self.notice = str(error)

    def status(self, page: OpenPage) -> dict[str, Any]:
        """Return the whole state as JSON values for a page."""
        return {
            "kind": "state",
            "settings": {**vars(self.settings), **vars(page.display)},
            "training": self.training.status(),
            **self.jobs.status(),
            "pace": self.pace.seconds_per_pixel(page.display.options().output),
            "scene": self.scene.status(),
            "notice": self.notice,
        }
