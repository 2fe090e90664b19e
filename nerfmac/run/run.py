"""`Run`: a scene's field, trained or in training, in memory and as a folder.

    config.json             every number of the run
    scene.json              where the pictures are, and the cameras that took them
    checkpoint.safetensors  the state, to resume from and to render

`Run.fit` is the one loop that trains: the command line, the viewer and the bench drive it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import mlx.core as mx

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import check_free, make_folder, read_json, user_path, write_json
from nerfmac.common.timeline import interval
from nerfmac.config import REFINED, Config, override
from nerfmac.ranks import noticed, watched
from nerfmac.run import learning
from nerfmac.run.bar import training_bar
from nerfmac.run.configured import check_given, configured, fitted
from nerfmac.run.folder import is_run, read_record, same_views
from nerfmac.run.limits import check_limits
from nerfmac.run.lock import locked, mark
from nerfmac.run.log import log_how
from nerfmac.run.pictured import Pictured
from nerfmac.scenes import Scene, Views
from nerfmac.scenes.record import SceneRecord
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.goal import Goal, Report
from nerfmac.training.history import History
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

SAVE_SECONDS = 30.0
"""Seconds between two checkpoints during training."""

CURVE_POINTS = 100
"""Most points of a run's curve."""

CONFIGURED = Method()
"""The field, the sampler and the loss that the configuration names."""


@dataclass(eq=False)
class Run(Pictured):
    """A field, trained or in training. Rendering uses the averaged parameters."""

    config: Config
    scene: SceneRecord
    trainer: Trainer
    state: TrainState
    history: History = field(default_factory=History)
    """Loss and PSNR so far."""
    source: Scene | None = None
    """The scene with its pictures, once they are needed."""
    folder: Path | None = None
    """Where training saves the run, every half minute and whenever it stops; None: nowhere."""
    build_seconds: float = 0.0
    """Seconds spent compiling kernels, in all."""
    rates: tuple[float, float] = (0.0, 0.0)
    """Rays and samples per second of training, smoothed over some twenty reports."""
    _is_checked: bool = False  # whether it was looked at if the field learns
    _good: TrainState | None = None  # the last reported state whose step was not skipped
    _prepared: Trainer | None = None  # the trainer whose functions are compiled
    _aligned: dict[tuple[str, int], Views] = field(default_factory=dict)  # by split and step
    _is_locked: bool = field(default=False, init=False)
    _written: tuple[int, int] | None = field(default=None, init=False)
    """The mark of the checkpoint in `folder`, as this run last wrote or read it."""

    @classmethod
    def begin(
        cls,
        scene: Scene,
        config: Config | None = None,
        *,
        method: Method = CONFIGURED,
        out: str | Path | None = None,
        progress: bool = True,
    ) -> Run:
        """The run on `scene`'s training views, before the first step.

        The default `config` is the current device's preset. `method` holds a field, a sampler or a
        loss of your own. `out` is a folder to save in, absent or empty; without one the run stays
        in memory. `progress`: whether to show a bar while pictures are decoded. Raises
        `InputError`, before any is decoded for all but broken pictures.
        """
        if out is not None:
            check_free(user_path(out))
        config = fitted(config or configured("auto", seed=0), scene, method)
        views = scene.views("train", progress=progress)
        trainer = Trainer(config, scene.extent, views, method)
        run = cls(config, SceneRecord.of(scene), trainer, trainer.init(), source=scene)
        if out is not None:
            run.folder = user_path(out)
            with run.locked():
                if is_run(run.folder):
                    raise InputError(f"{out} holds another run since; name another folder")
                run.save(out)
        return run

    @classmethod
    def load(
        cls, folder: str | Path, *, method: Method = CONFIGURED, source: Scene | None = None
    ) -> Run:
        """The run saved in `folder`, on the current device; the pictures are not needed.

        `method` has to hold the field and the sampler that the run was trained with, as in `begin`.
        `source` is the run's scene where that has been moved. Raises `InputError` for a folder with
        no run, a broken run, another field or sampler, or other training views.
        """
        check_given(None, method)
        folder = user_path(folder)
        scene = read_record(folder)
        config = Config.from_json(read_json(folder / "config.json"))
        trainer = Trainer(config, scene.extent, method=method, cameras=scene.cameras)
        path = folder / "checkpoint.safetensors"
        state, notes = load_checkpoint(path, trainer.shapes, method.own)
        history, rates = History(notes["curve"]), tuple(notes["rates"])
        seconds = notes["build_seconds"]
        run = cls(config, scene, trainer, state, history, build_seconds=seconds, rates=rates)
        if source is not None:
            run._move_to(folder, source)
        return run

    @classmethod
    def resume(cls, folder: str | Path, scene: Scene, *, method: Method = CONFIGURED) -> Run:
        """The run saved in `folder`, to be trained further on its `scene`, and saved there.

        The scene may have been moved. `method` as in `load`. Raises `InputError` as `load` does,
        and while another process trains the run.
        """
        folder = user_path(folder)
        with locked(folder):
            run = cls.load(folder, method=method, source=scene)
            run.folder, run._written = folder, mark(folder)
        return run

    def _move_to(self, folder: Path, scene: Scene) -> None:
        """Take the pictures of `scene`; raises `InputError` unless it has the run's views."""
        record = SceneRecord.of(scene)
        if not same_views(self.scene, record):
            raise InputError(
                f"{folder} was trained on {self.scene.path}, from other views than those of the "
                f"scene {scene.name!r}; resume it with its own scene and options"
            )
        self.source, self.scene = scene, replace(self.scene, path=record.path)

    def __repr__(self) -> str:
        state = f"{self.state.step} steps, {self.state.train_seconds:.1f} s"
        return f"Run({self.scene.path or 'a scene in memory'}, {self.config.preset}, {state})"

    @property
    def skipped_steps(self) -> int:
        """Steps so far whose gradients were not all finite; they changed nothing."""
        return int(self.state.scaling["skipped"])

    @property
    def curve(self) -> list[tuple[int, float, float]]:
        """At most 100 points (step, seconds of training, PSNR in dB of training pixels)."""
        return self.history.curve(CURVE_POINTS)

    def train(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        progress: bool = True,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """Train until the run has had `steps` steps, or `seconds` of training, in all.

        The default is the preset's number of steps. After an interruption (Ctrl-C, or an error in
        `on_report`) the run is as it was at the last report, and another call goes on from there.
        `progress`: whether to show a bar. Raises `InputError`, and `DivergedError` with the run as
        it was before it diverged.
        """
        check_limits(steps, seconds)
        if steps is None and seconds is None:
            steps = self.config.train.steps
        done = self.state.step if steps else self.state.train_seconds
        reports = self.fit(Goal(steps, seconds))
        with (
            closing(reports),
            training_bar(done, steps or seconds or 0, "steps" if steps else "s", progress) as bar,
        ):
            for report in reports:
                bar.set_postfix_str(str(report), refresh=False)
                now = report.state.step if steps else report.state.train_seconds
                bar.update(min(now, bar.total or 0) - bar.n)
                if on_report:
                    on_report(report)

    def fit(self, goal: Goal) -> Generator[Report]:
        """Train to the goal. At each report the run is up to date, and training waits.

        Closing the generator ends the training. If the run has a folder, it is saved at the end.
        Raises `InputError` if there are no pictures or while another process trains in the folder,
        `DivergedError`, and `LostRankError`.
        """
        with self.locked():
            yield from self._fit(goal)

    def _fit(self, goal: Goal) -> Generator[Report]:
        ranks = self.trainer.ranks
        with noticed(ranks):  # not watched: another may read its pictures for minutes yet
            ranks.check_alike("their configurations", repr(self.config))
            ranks.check_alike("their scenes", repr(replace(self.scene, path=None)))
        for _ in watched(ranks, self.prepare(), self._save_lost):
            pass
        saved = time.perf_counter()
        try:
            for report in watched(ranks, self.trainer.train(self.state, goal), self._save_lost):
                self._take(report)
                yield report
                if self.folder is not None and time.perf_counter() - saved > SAVE_SECONDS:
                    self.save_checkpoint(self.folder)
                    saved = time.perf_counter()
        except DivergedError as error:
            self.state, error.run = self._good or self.state, self
            raise
        finally:
            if self.folder is not None:
                self.save(self.folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within it, no other process can train into the run's folder, if the run has one.

        `fit` does this by itself. Raises `InputError` while another one trains there, or if another
        one has trained there since the run was last saved or loaded here.
        """
        if self.folder is None or self._is_locked:
            yield
            return
        make_folder(self.folder)
        with locked(self.folder):
            if self._written and mark(self.folder) not in (None, self._written):
                raise InputError(
                    f"{self.folder} has been trained by another process since; load it again to go "
                    "on from there"
                )
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def prepare(self) -> Iterator[None]:
        """Read the pictures and compile what training runs, step by step; nothing if it is done.

        `fit` does this by itself. Raises `InputError` if there are no pictures.
        """
        if self._prepared is self.trainer:
            return
        if not self.trainer.has_views:
            views, method = self.pictures().views("train"), self.trainer.method
            self.trainer = Trainer(self.config, self.scene.extent, views, method)
        for seconds in self.trainer.compile(self.state):
            self.build_seconds += seconds
            yield
        self._prepared = self.trainer
        log_how(self.build_seconds)

    def _take(self, report: Report) -> None:
        self.state = report.state
        if not report.is_skipped:
            self._good = report.state
        self.history.add(report)
        if self.state.step >= learning.CHECKED_AT and not self._is_checked and self.history.points:
            self._is_checked = True
            points, views = self.history.points, self.trainer.views
            learning.warn_if_nothing_is_learned(points, views, self.config.train.blend)
        old, new = self.rates, (report.rays_per_second, report.samples_per_second)
        if any(old):
            new = old[0] + 0.05 * (new[0] - old[0]), old[1] + 0.05 * (new[1] - old[1])
        self.rates = new

    def refine(self, **switches: bool) -> None:
        """Choose what of its views training corrects, by the names of `RefineConfig`'s switches:
        poses, lenses, exposures, colours. Those that are not named stay as they are.

        Raises `InputError` for other names, after the first step, and where there are no pictures.
        """
        if self.state.step:
            raise InputError(
                f"the run has had {self.state.step} steps; what training corrects of its views is "
                "chosen before the first one"
            )
        for name in switches:
            checks.choice("correction", name, REFINED)
        config = override(self.config, refine=switches)
        views, method = self.pictures().views("train"), self.trainer.method
        trainer = Trainer(config, self.scene.extent, views, method)
        self.config, self.trainer, self.state = config, trainer, trainer.init()
        if self.folder is not None:
            self.save(self.folder)

    def copy(self) -> Run:
        """A copy of the run, for any thread. Training one does not change the other."""
        mx.eval(self.state.arrays())
        # Compiled functions belong to a thread, so the copy has a trainer of its own.
        trainer = self.trainer.without_views(self.scene.cameras)
        return replace(self, trainer=trainer, history=History(self.curve), folder=None)

    def save(self, folder: str | Path) -> None:
        """Write the run to `folder`, which is created if absent. Raises `InputError`."""
        folder = user_path(folder)
        make_folder(folder)
        write_json(folder / "config.json", self.config.to_json())
        write_json(folder / "scene.json", self.scene.to_json())
        self.save_checkpoint(folder)

    def _save_lost(self) -> str:
        if self.folder is None:
            return "the first one saves the run"
        self.save_checkpoint(self.folder)
        return f"the state after step {self.state.step} is in {self.folder}"

    def save_checkpoint(self, folder: Path) -> None:
        """Write the state only, into a folder that already holds the other files."""
        notes = {"curve": self.curve, "build_seconds": self.build_seconds, "rates": self.rates}
        path = folder / "checkpoint.safetensors"
        with interval("checkpoint", step=self.state.step):
            save_checkpoint(path, self.state, notes, self.trainer.method.own)
        if folder == self.folder:
            self._written = mark(folder)
