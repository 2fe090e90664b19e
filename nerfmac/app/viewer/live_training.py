"""`LiveTraining` trains a run in slices and can be started and paused. Until the images of a new
run are decoded, the viewer shows a `Preview`."""

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nerfmac.app.run import Run, Training, beginning, check_memory, config_of, drained, facts_of
from nerfmac.app.scenes import Scene
from nerfmac.common import InputError
from nerfmac.config import REFINED, Config, override
from nerfmac.training.goal import Goal, Report
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.resolve import resolve


@dataclass
class Preview:
    """Run in an approximate initial state, which is rendered but not trained, and the arguments of
    the training that replaces it."""

    scene: Scene
    config: Config | str
    method: Method
    folder: Path | None
    run: Run = field(init=False)
    saved_step = 0  # No step has been trained.

    def __post_init__(self) -> None:
        """Create the run. `InputError` is raised in the same cases as by `Run.begin`, except for
        images that cannot be decoded."""
        facts = facts_of(self.scene)
        self.config = resolve(config_of(self.config), facts)
        model = Model(self.config, self.scene.bounds, facts.cameras, self.method)
        check_memory(model, self.scene)
        state = model.preview(facts.cameras)
        self.run = Run(self.scene.recorded(), model, state, source=self.scene)

    def refine(self, **switches: bool) -> None:
        """Enable or disable refinements (see `Run.refine`)."""
        assert isinstance(self.config, Config)
        other = replace(self, config=override(self.config, refine=switches))
        other.run.scene = replace(other.run.scene, up=self.run.scene.up)
        self.config, self.run = other.config, other.run

    def beginning(self, goal: Goal) -> Generator[None, None, Training]:
        """Return the training of the run, and save it if it has a folder. The images of the scene
        are decoded now unless they are already. If `goal` has a time limit, the preset `auto` is
        adapted to the speed of the device, with None between the parts of this measurement."""
        assert isinstance(self.config, Config)
        run = yield from beginning(
            self.scene, self.config, goal, method=self.method, progress=False
        )
        run.scene = replace(run.scene, up=self.run.scene.up)  # The user may have changed it.
        return Training(run) if self.folder is None else Training.begin(run, self.folder)


class LiveTraining:
    """Training in short slices, between which the viewer handles messages. Only the worker thread
    may use this object."""

    def __init__(self, shown: Training | Preview) -> None:
        self._shown = shown
        self.goal = Goal()
        self.message: str | None = None
        self.is_resting = threading.Event()
        """Event that is set while training is not running. Any thread may wait for it."""
        self.is_resting.set()
        self.failure: Exception | None = None  # Exception that stopped training, or None.
        self.has_finished = False  # Whether training has ended because it has reached its limit.
        self.is_preparing = isinstance(shown, Preview)
        """Whether `prepare` must be called before the first step."""
        self._preparation: Iterator[None] | None = None
        self._reports: Generator[Report | None] | None = None
        self._last: Report | None = None
        self._first: tuple[float, float] | None = None
        """Value of `time.monotonic()` and progress of the first report since the last start."""

    @property
    def run(self) -> Run:
        """The run that the viewer shows. When its images are decoded, it replaces a preview."""
        return self._shown.run

    @property
    def unsaved_steps(self) -> int:
        """Number of training steps that are not saved in any folder."""
        return self.run.state.step - self._shown.saved_step

    def save(self, folder: str | Path) -> None:
        """Save the current run in a run folder. If the images are not decoded, decode them."""
        training = self._begun()
        training.run.save(folder)
        training.saved_step = training.run.state.step

    def refine(self, **switches: bool) -> None:
        """Enable or disable refinements before training starts (see `Run.refine`)."""
        if self.is_running:
            raise InputError(
                "refinement cannot be changed during training; choose it before training starts"
            )
        self._shown.refine(**switches)

    @property
    def is_running(self) -> bool:
        """Whether training was started and has not ended or been paused."""
        return self._reports is not None

    @property
    def is_done(self) -> bool:
        """Whether the step limit or the time limit has been reached."""
        return self.goal.progress(self.run.state) >= 1.0

    def start(self) -> None:
        """Start training. The first calls of `work` read the images and compile the kernels."""
        if self.is_running:
            return
        if self.is_done:
            raise InputError("training has reached its limit; increase or remove the limit")
        self.run.images()
        self._reports = self._train()
        self._first = None
        self.failure, self.has_finished = None, False
        self.is_resting.clear()

    def pause(self) -> None:
        """Stop training and save the run."""
        if self._reports is not None:
            self._reports.close()
            self._reports = None

    def prepare(self) -> None:
        """Read one image or compile some kernels. Repeated calls prepare the run for training."""
        if self._preparation is None:
            self._preparation = self._prepare()
        try:
            next(self._preparation)
        except BaseException as error:
            self.is_preparing, self._preparation, self.message = False, None, None
            if not isinstance(error, StopIteration):
                raise

    def work(self, seconds: float) -> None:
        """Train for about `seconds` seconds. An exception ends training and saves the run."""
        self.goal.report_interval = seconds
        assert self._reports is not None
        try:
            report = next(self._reports)
        except StopIteration:
            self.pause()
            self.has_finished = True
            return
        except Exception:
            self.pause()
            raise
        if report is not None:
            self._last = report
            self._first = self._first or (time.monotonic(), report.progress)

    def status(self) -> dict[str, Any]:
        """Return the state of the training as JSON values for the page."""
        state, points = self.run.state, self.run.history.points
        last = self._last or (points[-1] if points else None)  # History points of a loaded run.
        progress = self.goal.progress(state)
        now, (begin, first) = time.monotonic(), self._first or (0.0, progress)
        left = (1.0 - progress) * (now - begin) / (progress - first) if progress > first else None
        has_end = self.goal.has_end
        return {
            "can_train": self.run.source is not None or self.run.scene.path is not None,
            "is_running": self.is_running,
            "has_finished": self.has_finished,
            "message": self.message,
            "step": state.step,
            "seconds": state.train_seconds,
            "progress": min(progress, 1.0) if has_end else None,
            "left": left if has_end and self.is_running else None,
            "loss": last.loss if last else None,
            "psnr": last.psnr if last else None,
            "rays": state.rays,
            "refine": {name: getattr(self.run.config.refine, name) for name in REFINED},
        }

    def _train(self) -> Generator[Report | None]:
        """Yield None during the preparation and reports during the training."""
        self.is_preparing = True
        while self.is_preparing:
            self.prepare()
            yield None
        yield from self._begun().fit(self.goal)

    def _begun(self) -> Training:
        """Return the training of the run. If the viewer shows a preview, replace it."""
        if isinstance(self._shown, Preview):
            self._shown = drained(self._shown.beginning(self.goal))
        return self._shown

    def _prepare(self) -> Iterator[None]:
        """Read one image or compile some kernels with each `next`. No progress bar is shown: it
        would be another widget, and JupyterLab delays all later messages to a page until it has
        loaded the code of that widget. Over a slow network, this takes seconds."""
        self.message = "reading images"
        yield
        yield from self.run.images().decoding("train", progress=False)
        if isinstance(self._shown, Preview):
            self._shown = yield from self._shown.beginning(self.goal)
        for _ in self._shown.prepare():
            self.message = "compiling kernels"
            yield
