"""`Run`: a scene's field, trained or in training, in memory and as a folder.

    config.json             every setting of the run
    scene.json              path of the images, and the training cameras
    checkpoint.safetensors  the training state, to resume from and to render

`Run.fit` is the one training loop: command line, viewer and bench drive it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from tqdm.auto import tqdm

from nerfmac.app.paths import orbit
from nerfmac.app.paths.gaze import look_at_point
from nerfmac.app.run import configuration, messages
from nerfmac.app.run import folder as run_folder
from nerfmac.app.run.configuration import CONFIGURED
from nerfmac.app.run.decoding import decode_images, preview
from nerfmac.app.run.together import check_alike, survived
from nerfmac.app.scenes import Scene, read_again
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import make_folder, read_json, user_path, write_json
from nerfmac.common.lock import locked
from nerfmac.common.timeline import interval
from nerfmac.config import REFINED, Config, override
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.views import Views
from nerfmac.refine.report import refinement_report
from nerfmac.rendering.evaluation import Evaluation, evaluate
from nerfmac.rendering.perceptual import Lpips
from nerfmac.rendering.renderer import Rendered, Renderer
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.goal import Goal, Report
from nerfmac.training.held_out import refined_views
from nerfmac.training.history import History, read_notes
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

SAVE_SECONDS = 30.0
"""Seconds between two checkpoints during training."""

CURVE_POINTS = 100
"""Largest number of points in a run's `curve`."""


@dataclass(eq=False)
class Run:
    """A field, trained or in training. Rendering uses the averaged parameters."""

    config: Config
    scene: SceneRecord
    trainer: Trainer
    state: TrainState
    history: History = field(default_factory=History)
    """Loss and PSNR so far."""
    source: Scene | None = None
    """The scene with its images; None until they are needed."""
    folder: Path | None = None
    """Folder in which training saves the run every 30 s and when it ends; None: nowhere."""
    build_seconds: float = 0.0
    """Seconds spent compiling kernels, in all."""
    rates: tuple[float, float] = (0.0, 0.0)
    """Rays and samples per second of training, averaged over about twenty reports."""
    is_preview: bool = False
    """Whether the state is that of `Trainer.preview`: the images have not been decoded."""
    _is_checked: bool = False  # whether the field has been compared with a constant image
    _good: TrainState | None = None  # the last reported state whose step was not skipped
    _prepared: Trainer | None = None  # the trainer whose functions are compiled
    _aligned: dict[tuple[str, int], Views] = field(default_factory=dict)  # by split and step
    _is_locked: bool = field(default=False, init=False)
    _written: tuple[int, int] | None = field(default=None, init=False)  # last `checkpoint_mark`
    saved_step: int = field(default=0, init=False)  # of the last checkpoint in the folder

    @classmethod
    def begin(
        cls,
        scene: Scene,
        config: Config | None = None,
        *,
        method: Method = CONFIGURED,
        out: str | Path | None = None,
        progress: bool = True,
        decode: bool = True,
    ) -> Run:
        """A run on the training views of `scene`, before the first step.

        By default `config` is the current device's preset. `method` holds a field, a sampler or a
        loss of your own. `out` is an absent or empty folder to save in; without it the run stays in
        memory. `progress` shows a bar while images are decoded. If `decode` is false, `prepare`
        decodes them. Raises `InputError`, before it decodes images unless one of them is broken.
        """
        if out is not None:
            run_folder.check_unused(user_path(out))
        config = config or configuration.config_for_device("auto", seed=0)
        config = configuration.config_for_scene(config, scene, method)
        run = cls(config, SceneRecord.of(scene), *preview(config, scene, method), source=scene)
        run.is_preview = True
        for _ in decode_images(run, progress=progress) if decode else ():
            pass
        if out is not None:
            run.folder = user_path(out)
            with run.locked(), run_folder.beginning(run.folder):
                run.save(out)
        return run

    @classmethod
    def load(
        cls, folder: str | Path, source: Scene | None = None, *, method: Method = CONFIGURED
    ) -> Run:
        """The run saved in `folder`, on the current device; no images are read.

        `method` holds the field and the sampler that the run was trained with. `source` is the
        run's scene, if its files have been moved. Raises `InputError` for a folder without a run, a
        broken run, another field or sampler, or other training views.
        """
        configuration.check_types(None, method)
        folder = user_path(folder)
        scene = run_folder.read_record(folder)
        if source is not None:
            scene = run_folder.moved_record(folder, scene, source)
        config = Config.from_json(read_json(folder / "config.json"))
        trainer = Trainer(config, scene.bounds, method=method, cameras=scene.cameras)
        path = folder / "checkpoint.safetensors"
        state, notes = load_checkpoint(path, trainer.shapes, method.own)
        history, seconds, rates = read_notes(notes, str(path))
        return cls(config, scene, trainer, state, history, source, None, seconds, rates)

    @classmethod
    def resume(cls, folder: str | Path, scene: Scene, *, method: Method = CONFIGURED) -> Run:
        """The run saved in `folder`, to be trained further on its `scene` and saved there.

        The scene's files may have been moved. Raises `InputError` as `load` does, and while another
        process trains the run.
        """
        folder = user_path(folder)
        run_folder.check_saved(folder)  # before its lock, the mark of a beginning, is removed
        with locked(folder):
            run = cls.load(folder, method=method, source=scene)
            run.folder, run.saved_step = folder, run.state.step
            run._written = run_folder.checkpoint_mark(folder)
        return run

    def __repr__(self) -> str:
        state = f"{self.state.step} steps, {self.state.train_seconds:.1f} s"
        return f"Run({self.scene.path or 'a scene in memory'}, {self.config.preset}, {state})"

    @property
    def skipped_steps(self) -> int:
        """Number of steps skipped so far because a gradient was not finite."""
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
        """Train up to a total of `steps` steps or `seconds` of training, including earlier ones.

        The default is the configuration's number of steps. After an interruption (Ctrl-C, or an
        error in `on_report`) the run is as it was at the last report, and another call continues.
        `progress` shows a bar. Raises `InputError`, and `DivergedError` with the run as it was
        before it diverged.
        """
        configuration.check_limits(steps, seconds)
        if steps is None and seconds is None:
            steps = self.config.train.steps
        done = self.state.step if steps else self.state.train_seconds
        limit, unit = (steps, "steps") if steps else (seconds or 0.0, "s")
        reports = self.fit(Goal(steps, seconds))
        with closing(reports), messages.training_bar(done, limit, unit, shown=progress) as bar:
            for report in reports:
                bar.set_postfix_str(str(report), refresh=False)
                now = report.state.step if steps else report.state.train_seconds
                bar.update(min(now, limit) - bar.n)
                if on_report:
                    on_report(report)

    def fit(self, goal: Goal) -> Generator[Report]:
        """Train to the goal, one report at a time; at each report the run is up to date.

        Closing the generator ends the training. A run with a folder is saved at the end. Raises
        `InputError` if there are no images or while another process trains in the folder,
        `DivergedError`, and `LostRankError`.
        """
        with self.locked():
            yield from self._fit(goal)

    def _fit(self, goal: Goal) -> Generator[Report]:
        ranks = self.trainer.ranks
        check_alike(ranks, self.config, self.scene)
        for _ in survived(ranks, self.prepare, self._save_lost):
            pass
        reports = survived(ranks, lambda: self.trainer.train(self.state, goal), self._save_lost)
        saved = time.perf_counter()
        try:
            for report in reports:
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
        """Context manager that keeps other processes from training into the run's folder.

        `fit` calls it. Raises `InputError` while another process trains there, or if one has
        trained there since the run was last saved or loaded here.
        """
        if self.folder is None or self._is_locked:
            yield
            return
        make_folder(self.folder)
        with locked(self.folder):
            run_folder.check_unchanged(self.folder, self._written)
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def prepare(self) -> Iterator[None]:
        """Decode the images and compile the training step, one function at each `next`.

        `fit` calls it; a second call does nothing. Raises `InputError` if there are no images.
        """
        if self._prepared is self.trainer:
            return
        yield from decode_images(self)
        for seconds in self.trainer.compile(self.state):
            self.build_seconds += seconds
            yield
        self._prepared = self.trainer
        messages.log_backends(self.build_seconds)

    def _take(self, report: Report) -> None:
        self.state = report.state
        if not report.is_skipped:
            self._good = report.state
        self.history.add(report)
        points = self.history.points
        if self.state.step >= messages.CHECKED_AT and not self._is_checked and points:
            self._is_checked, blend = True, self.config.train.blend
            messages.warn_if_nothing_is_learned(points, self.trainer.views, blend)
        (rays, samples), weight = self.rates, 0.05 if any(self.rates) else 1.0
        rays += weight * (report.rays_per_second - rays)
        self.rates = rays, samples + weight * (report.samples_per_second - samples)

    def refine(self, **switches: bool) -> None:
        """Switch refinement of poses, lenses, exposures or colors on or off.

        Switches that are not given keep their value. Raises `InputError` for other names, after
        the first step, and if there are no images.
        """
        if self.state.step:
            had = f"the run has had {self.state.step} steps"
            raise InputError(f"{had}; what training refines is chosen before the first one")
        for name in switches:
            checks.choice("correction", name, REFINED)
        self.config, self.is_preview = override(self.config, refine=switches), True
        self.trainer = self.trainer.without_views(self.scene.cameras)
        for _ in decode_images(self):
            pass

    def copy(self) -> Run:
        """An independent copy of the run in memory, which any thread may use."""
        mx.eval(self.state.arrays())
        # Compiled functions belong to a thread, so the copy has a trainer of its own.
        trainer = self.trainer.without_views(self.scene.cameras)
        return replace(self, trainer=trainer, history=History(self.curve), folder=None)

    def save(self, folder: str | Path) -> None:
        """Write the run to `folder`, made if absent. Raises `InputError`."""
        folder = user_path(folder)
        make_folder(folder)
        write_json(folder / "scene.json", self.scene.to_json())
        write_json(folder / "config.json", self.config.to_json())
        self.save_checkpoint(folder)

    def _save_lost(self) -> str:
        if self.folder is None:
            return "the first one saves the run"
        self.save_checkpoint(self.folder)
        return f"the state after step {self.state.step} is in {self.folder}"

    def save_checkpoint(self, folder: Path) -> None:
        """Write the state alone, to a `folder` that holds the other files."""
        notes = {"curve": self.curve, "build_seconds": self.build_seconds, "rates": self.rates}
        path = folder / "checkpoint.safetensors"
        with interval("checkpoint", step=self.state.step):
            save_checkpoint(path, self.state, notes, self.trainer.method.own)
        if folder == self.folder:
            self._written, self.saved_step = run_folder.checkpoint_mark(folder), self.state.step

    def renderer(self) -> Renderer:
        """A renderer of the field as it is now."""
        return self.trainer.renderer(self.state)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """Render one image, which a notebook shows; for many, use one `renderer()`.

        >>> run.render(run.orbit(frames=1)[0])
        Rendered(128x128, mean opacity ...)
        """
        return self.renderer().render(camera, background)

    def orbit(self, frames: int, size: tuple[int, int] | None = None) -> list[Camera]:
        """`frames` cameras on a closed path around the point that the training cameras look at."""
        cameras, up, subject = self.scene.cameras, self.scene.up, self.scene.subject
        center = look_at_point(self.renderer(), cameras, up, subject)
        return orbit(cameras, up=up, frames=frames, size=size, center=center)

    def evaluate(
        self,
        split: str = "test",
        background: str = "white",
        *,
        seconds: float | None = None,
        progress: bool = True,
        lpips: Lpips | None = None,
    ) -> Evaluation:
        """PSNR, SSIM and, with `lpips`, LPIPS of a split's `views`, in the split's order.

        The result is a list with the means `psnr`, `ssim` and `lpips`:

        >>> quality = run.evaluate("test", progress=False)
        >>> quality
        Evaluation(4 test views: PSNR ... dB, SSIM ...)
        >>> worst = min(quality, key=lambda view: view.psnr)

        `seconds`: evaluate only as many views as fit into that time, evenly spread; if not even
        one fits, only its middle rows.
        """
        start, blend = time.perf_counter(), self.config.train.blend
        views = self.views(split, progress=progress)
        seconds = seconds and seconds - (time.perf_counter() - start)
        outcomes = evaluate(self.renderer, views, background, blend, seconds=seconds, lpips=lpips)
        bar = tqdm(outcomes, f"{split} views", len(views.names), disable=not progress, unit="view")
        ordered = sorted(bar, key=lambda view: views.names.index(view.name))
        return Evaluation(ordered, split=split, of=len(views.names))

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """The training cameras, with refined poses and lenses."""
        if not self.config.refine.cameras:
            return self.scene.cameras
        cameras = self.trainer.refinement.cameras(self.state.average)
        return tuple(cameras[index] for index in range(len(cameras)))

    @property
    def refined(self) -> dict[str, Any]:
        """Sizes of the refinements so far, in the form of `refinement_report`."""
        return refinement_report(self.trainer.refinement, self.state.average)

    def views(self, split: str, *, progress: bool = True) -> Views:
        """The views of `split`, to compare with renderings. Raises `InputError`.

        With refined poses or lenses, training cameras are the refined ones, and other cameras are
        aligned with these (`nerfmac.training.held_out`). `progress` shows bars if it takes long.
        """
        views, key = self.images().views(split, progress=progress), (split, self.state.step)
        if self.config.refine.cameras and key not in self._aligned:
            is_trained, trained = split == "train", (self.trainer, self.state)
            refined = refined_views(*trained, views, is_trained=is_trained, progress=progress)
            self._aligned = {key: refined}
        return self._aligned.get(key, views)

    def images(self) -> Scene:
        """The scene with its images; its files are read if necessary. Raises `InputError`."""
        self.source = self.source or read_again(self.scene)
        return self.source
