"""`Run`, the field of a scene during or after training, in memory and as a folder.

    config.json             all settings of the run
    scene.json              path of the images, and the training cameras
    checkpoint.safetensors  the training state, for resuming and rendering

`Run.fit` is the only training loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
from tqdm.auto import tqdm

from nerfmac.app.paths import orbit
from nerfmac.app.paths.rig import look_at_point
from nerfmac.app.run import configuration, reporting
from nerfmac.app.run import folder as run_folder
from nerfmac.app.run.configuration import CONFIGURED
from nerfmac.app.scenes import Scene, read_again
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.backend.watchdog import RETRIES, confirm, resumed
from nerfmac.common import checks
from nerfmac.common.awake import awake
from nerfmac.common.checks import InputError
from nerfmac.common.files import make_folder, read_json, user_path, write_json
from nerfmac.common.lock import locked
from nerfmac.common.timeline import interval
from nerfmac.config import REFINED, Config, override
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.views import Views
from nerfmac.ranks import noticed, watched
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

CURVE_POINTS = 100  # Maximum number of points in `Run.curve`.
SAVE_SECONDS = 30.0  # Time in seconds between two checkpoints during training.
log = logging.getLogger("nerfmac")
_RATE_WEIGHT = 0.05  # Weight of a report in the moving averages of rays and samples per second.

Item = TypeVar("Item")


@dataclass(eq=False)
class Run:
    """Field of a scene, during or after training. Renderings use the averaged parameters.

    Examples:
        `steps` is the total number of steps of a run, so the second call of `train` in this example
        has 2 steps.

        >>> run = nerfmac.Run.begin(scene, nerfmac.config.PRESETS["tiny"], progress=False)
        >>> run.train(steps=3, progress=False)
        >>> run.train(steps=5, progress=False)
        >>> run
        Run(..., tiny, 5 steps, ... s)
        >>> run.save("run")
        >>> nerfmac.Run.load("run").state.step
        5
    """

    config: Config
    scene: SceneRecord
    trainer: Trainer
    state: TrainState
    history: History = field(default_factory=History)
    """Loss and PSNR of the steps so far."""
    source: Scene | None = None
    """Scene with its images, or None until the images are needed."""
    folder: Path | None = None
    """Run folder, or None if the run is only in memory. Training saves the run in this folder every
    30 seconds and at the end."""
    build_seconds: float = 0.0
    """Total compilation time of kernels in seconds."""
    rates: tuple[float, float] = (0.0, 0.0)
    """Number of rays and of samples per second of training, averaged over about twenty reports."""
    is_preview: bool = False
    """Whether the state is from `Trainer.preview`, because no images have been decoded."""
    name: str = ""  # Name of the run folder or, for a run in memory, of the scene.
    _prepared: Trainer | None = None  # Trainer with compiled functions.
    # Views with refined cameras, for the last split and step.
    _aligned: dict[tuple[str, int], Views] = field(default_factory=dict)
    _is_locked: bool = field(default=False, init=False)
    # Result of `checkpoint_mark` after this process last read or wrote the checkpoint.
    _written: tuple[int, int] | None = field(default=None, init=False)
    saved_step: int = field(default=0, init=False)  # Step of the last checkpoint in the folder.

    def __post_init__(self) -> None:
        self.name = self.name or self.scene.name

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
        """Create a run on the training views of a scene, before the first step.

        Args:
            scene: Scene to train on.
            config: All settings. By default, the preset for the current device.
            method: Custom field, sampler, or loss.
            out: Absent or empty folder to save in. By default, the run is only in memory.
            progress: Whether to show a progress bar while images are decoded.
            decode: Whether to decode the images now. If False, `prepare` decodes them later.

        Returns:
            The run before the first step. If `out` is given, the run has been saved there.

        Raises:
            InputError: If the folder is in use, the scene has no training views, or the scene,
                configuration, and method are incompatible. These conditions are checked before
                images are decoded. Also if an image cannot be decoded.
        """
        if out is not None:
            run_folder.check_unused(user_path(out))
        config = config or configuration.config_for_device("auto", seed=0)
        config = configuration.config_for_scene(config, scene, method)
        cameras = scene.cameras("train")
        trainer = Trainer(config, scene.bounds, method=method, cameras=cameras)
        run = cls(config, SceneRecord.of(scene), trainer, trainer.preview(cameras), source=scene)
        run.is_preview = True
        for _ in run._decode(progress=progress) if decode else ():
            pass
        if out is not None:
            run.folder = user_path(out)
            run.name = run.folder.resolve().name
            with run.locked(), run_folder.beginning(run.folder):
                run.save(out)
        return run

    @classmethod
    def load(
        cls, folder: str | Path, source: Scene | None = None, *, method: Method = CONFIGURED
    ) -> Run:
        """Load a run onto the current device without reading its images.

        Args:
            folder: Run folder.
            source: Scene of the run, if the files of the scene have been moved.
            method: Method with the field and the sampler that the run was trained with.

        Returns:
            The run in memory. Further training does not change `folder`; to save the training in
            the same folder, use `resume`.

        Raises:
            InputError: If `folder` is not a run, a file is invalid, the field or the sampler
                differs from the one in training, or `source` and the run have different training
                views.
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
        run = cls(config, scene, trainer, state, history, source, None, seconds, rates)
        run.name = folder.resolve().name
        return run

    @classmethod
    def resume(cls, folder: str | Path, scene: Scene, *, method: Method = CONFIGURED) -> Run:
        """Load a run to continue its training and save it in the same folder.

        Args:
            folder: Run folder with a checkpoint.
            scene: Scene of the run. Its files may have been moved.
            method: Method with the field and the sampler that the run was trained with.

        Returns:
            The run, at the step of its checkpoint.

        Raises:
            InputError: In the same cases as `load`, if the folder has no checkpoint, or while
                another process trains the run.
        """
        folder = user_path(folder)
        # The folder is checked before `locked` removes an old lock file.
        run_folder.check_saved(folder)
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
        """Number of steps that were skipped because a gradient was not finite."""
        return int(self.state.scaling["skipped"])

    @property
    def curve(self) -> list[tuple[int, float, float]]:
        """Training curve with up to 100 points (step, training time in seconds, training PSNR in
        dB)."""
        return self.history.curve(CURVE_POINTS)

    def train(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        progress: bool = True,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """Train until a total number of steps or a total training time, including earlier training.

        After an interruption (Ctrl-C or an exception in `on_report`), another call continues from
        the last report.

        Args:
            steps: Total number of steps. By default, the number of steps in the configuration.
            seconds: Total training time in seconds, instead of `steps`.
            progress: Whether to show a progress bar.
            on_report: Callback for each `Report`.

        Raises:
            InputError: If both limits are given or a limit is not positive, and in the same cases
                as `fit`.
            DivergedError: If the loss is not finite. The run keeps the last good state.
        """
        configuration.check_limits(steps, seconds)
        if steps is None and seconds is None:
            steps = self.config.train.steps
        if Goal(steps, seconds).progress(self.state) >= 1.0:
            limit_name = f"steps={steps} (--steps)" if steps else f"seconds={seconds:g} (--seconds)"
            log.warning(
                f"the run has already been trained for {self.state.step} steps and "
                f"{self.state.train_seconds:.1f} s; {limit_name} is the total, so there is nothing "
                "to train: increase it to continue"
            )
            return
        done = self.state.step if steps else self.state.train_seconds
        limit, unit = (float(steps), "steps") if steps else (seconds or 0.0, "s")
        reports = self.fit(Goal(steps, seconds))
        with closing(reports), reporting.training_bar(done, limit, unit, shown=progress) as bar:
            for report in reports:
                bar.set_postfix_str(str(report), refresh=False)
                now = report.state.step if steps else report.state.train_seconds
                bar.update(min(now, limit) - bar.n)
                if on_report:
                    on_report(report)

    def fit(self, goal: Goal) -> Generator[Report]:
        """Train until a goal is reached, yielding reports.

        Closing the generator stops the training. A run with a folder is saved at the end.

        Args:
            goal: Total number of steps or training time.

        Yields:
            A `Report` after every few training steps, as soon as the device has computed the next
            report without an error. `state` of the run is then `report.state`.

        Raises:
            InputError: If the images cannot be read, or another process is training in the folder.
            DivergedError: If the loss is not finite. The run keeps the last good state.
            LostRankError: If another rank has failed.
        """
        with self.locked(), awake():
            yield from self._train(goal)

    def _train(self, goal: Goal) -> Generator[Report]:
        """Train until a goal is reached, and save the run every `SAVE_SECONDS`."""
        ranks = self.trainer.ranks
        with noticed(ranks):  # No time limit: another rank may still be reading images.
            ranks.check_alike("their configurations", repr(self.config.to_json()))
            ranks.check_alike("their scenes", repr(replace(self.scene, path=None)))
        for _ in self._survived(self.prepare):
            pass
        saved = time.perf_counter()

        def unconfirmed() -> Iterator[Report]:
            """Yield reports. The checkpoints are saved here, so that a GPU failure that is raised
            meanwhile is survived as well."""
            nonlocal saved
            for report in self.trainer.train(self.state, goal):
                if self.folder is not None and time.perf_counter() - saved > SAVE_SECONDS:
                    self.save_checkpoint(self.folder)
                    saved = time.perf_counter()
                yield report

        good = self.state  # Last reported state after a step that was not skipped.
        try:
            for report in self._survived(unconfirmed):
                self._update(report)
                good = good if report.is_skipped else report.state
                yield report
        except DivergedError as error:
            self.state, error.run = good, self
            raise
        finally:
            if self.folder is not None:
                self.save(self.folder)

    def _survived(self, begin: Callable[[], Iterable[Item]]) -> Iterator[Item]:
        """Yield items that the ranks compute together. After a GPU failure, save the run and begin
        again, except with several ranks, because the others would not wait."""
        ranks = self.trainer.ranks

        def save() -> str:
            if self.folder is None:
                return "the first rank saves the run"
            self.save_checkpoint(self.folder)
            return f"the state after step {self.state.step} is saved in {self.folder}"

        retries = RETRIES if ranks.size == 1 else 0
        return resumed(lambda _done: watched(ranks, begin(), save), retries, on_failure=save)

    def _update(self, report: Report) -> None:
        before, self.state = self.state.step, report.state
        self.history.add(report)
        points = self.history.points  # None of a step that was skipped.
        if before < reporting.CHECKED_AT <= self.state.step and points:
            blend = self.config.train.blend
            reporting.warn_if_nothing_is_learned(points, self.trainer.views, blend)
        (rays, samples), weight = self.rates, _RATE_WEIGHT if any(self.rates) else 1.0
        rays += weight * (report.rays_per_second - rays)
        self.rates = rays, samples + weight * (report.samples_per_second - samples)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context manager that prevents other processes from training in the run folder. If the run
        has no folder, the context manager has no effect.

        Yields:
            None.

        Raises:
            InputError: If another process is training in the folder, or if another process has
                replaced the checkpoint since this run last read or wrote it.
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
        """Decode the images and compile the functions of the training step.

        Each `next` decodes one image or compiles some functions. If the run is already prepared,
        the generator ends immediately.

        Yields:
            None, after each image and each compilation.

        Raises:
            InputError: If the images cannot be read.
        """
        if self._prepared is self.trainer:
            return
        yield from self._decode()
        for seconds in self.trainer.compile(self.state):
            self.build_seconds += seconds
            yield
        self._prepared = self.trainer
        reporting.log_backends(self.build_seconds)

    def _decode(self, *, progress: bool = True) -> Iterator[None]:
        """Pass the training images to the trainer, and yield after each image. A run with
        `is_preview` receives a new initial state and saves it in its folder."""
        if self.trainer.has_views:
            return
        source, method = self.images(), self.trainer.method
        yield from source.decoding("train", progress=progress)
        views = source.views("train")
        if self.is_preview:
            config = configuration.exposures_for_images(self.config, views)
            self.config = configuration.surface_losses_for_views(config, views)
            self.scene = SceneRecord.of(source, views.mean_color())
        self.trainer = Trainer(self.config, self.scene.bounds, views, method)
        if self.is_preview:
            self.state, self.is_preview = self.trainer.init(), False
            if self.folder is not None:
                self.save(self.folder)

    def refine(self, **switches: bool) -> None:
        """Enable or disable the refinement of poses, lenses, exposures, or colors.

        Args:
            switches: New values for `poses`, `lenses`, `exposures`, and `colors`. Values that are
                not passed do not change.

        Raises:
            InputError: If a name is unknown, the run has been trained, or the images cannot be
                read.
        """
        if self.state.step:
            raise InputError(
                f"the run has already been trained for {self.state.step} steps; refinement can be "
                "changed only before the first step"
            )
        for name in switches:
            checks.choice("correction", name, REFINED)
        self.config, self.is_preview = override(self.config, refine=switches), True
        self.trainer = self.trainer.without_views(self.scene.cameras)
        for _ in self._decode():
            pass

    def copy(self) -> Run:
        """Return an independent copy of the run. The copy can be used on any thread.

        Returns:
            Copy in memory. The copy is not saved in the folder of the original run.
        """
        mx.eval(self.state.arrays())
        # Compiled functions belong to a thread, so the copy needs another trainer.
        trainer = self.trainer.without_views(self.scene.cameras)
        return replace(self, trainer=trainer, history=History(self.curve), folder=None)

    def save(self, folder: str | Path) -> None:
        """Save the run.

        Args:
            folder: Run folder. If the folder does not exist, it is created.

        Raises:
            InputError: If the files cannot be written.
        """
        folder = user_path(folder)
        make_folder(folder)
        write_json(folder / "scene.json", self.scene.to_json())
        write_json(folder / "config.json", self.config.to_json())
        self.save_checkpoint(folder)

    def save_checkpoint(self, folder: Path) -> None:
        """Save only the training state.

        Args:
            folder: Run folder that contains the other files.

        Raises:
            InputError: If the file cannot be written.
        """
        if self.trainer.ranks.size == 1:  # With several, launches may wait for a rank that is lost.
            confirm()
        notes = {"curve": self.curve, "build_seconds": self.build_seconds, "rates": self.rates}
        path = folder / "checkpoint.safetensors"
        with interval("checkpoint", step=self.state.step):
            save_checkpoint(path, self.state, notes, self.trainer.method.own)
        if folder == self.folder:
            self._written, self.saved_step = run_folder.checkpoint_mark(folder), self.state.step

    def renderer(self) -> Renderer:
        """Return a renderer of the current field.

        Returns:
            Renderer of the current state. Later training does not affect it.
        """
        return self.trainer.renderer(self.state)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """Render an image of the scene. A notebook displays the result as an image.

        Args:
            camera: Camera in scene coordinates. Its intrinsics determine the image size.
            background: sRGB color in [0, 1] behind the scene.

        Returns:
            `Rendered` with color, opacity, and depth of each pixel.

        Examples:
            >>> run.render(run.orbit(frames=1)[0])
            Rendered(128x128, mean opacity ...)
        """
        return self.renderer().render(camera, background)

    def orbit(self, frames: int, size: tuple[int, int] | None = None) -> list[Camera]:
        """Return cameras on a closed path around the point that the training cameras look at.

        Args:
            frames: Number of cameras.
            size: Image width and height in pixels. By default, the size of the photos.

        Returns:
            Cameras in scene coordinates.
        """
        cameras, up, subject = self.scene.cameras, self.scene.up, self.scene.subject
        center = look_at_point(self.renderer(), cameras, up, subject)
        return orbit(cameras, up=up, frames=frames, size=size, center=center)

    def evaluate(
        self,
        split: str = "test",
        background: str = "white",
        *,
        limit: int | None = None,
        progress: bool = True,
        lpips: Lpips | None = None,
    ) -> Evaluation:
        """Measure PSNR, SSIM, and optionally LPIPS of the views of a split.

        Args:
            split: Name of the split, such as `train`, `val`, or `test`.
            background: `white` or `black`, the color behind renderings and transparent photos.
            limit: Maximum number of views. If the split has more views, evenly spaced views are
                evaluated, the same ones in every call. By default, all views are evaluated.
            progress: Whether to show a progress bar.
            lpips: LPIPS metric with its network weights.

        Returns:
            List of the quality of each evaluated view, in the order of the split. The attributes
            `psnr` (in dB) and `ssim` are the means over these views.

        Raises:
            InputError: If the scene does not have the split, or its images cannot be read.

        Examples:
            >>> quality = run.evaluate("test", progress=False)
            >>> quality
            Evaluation(4 test views: PSNR ... dB, SSIM ...)
            >>> worst = min(quality, key=lambda view: view.psnr)
        """
        checks.optional_number("limit", limit, low=1, whole=True)
        views, blend = self.views(split, progress=progress), self.config.train.blend
        outcomes = evaluate(self.renderer, views, background, blend, limit=limit, lpips=lpips)
        total = min(len(views.names), limit or len(views.names))
        bar = tqdm(outcomes, f"{split} views", total, disable=not progress, unit="view")
        ordered = sorted(bar, key=lambda view: views.names.index(view.name))
        return Evaluation(ordered, split=split, of=len(views.names))

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """Training cameras in scene coordinates. If the run refines poses or lenses, the cameras
        have the refined values."""
        if not self.config.refine.cameras:
            return self.scene.cameras
        cameras = self.trainer.refinement.cameras(self.state.average)
        return tuple(cameras[index] for index in range(len(cameras)))

    @property
    def refined(self) -> dict[str, Any]:
        """Summary of the changes that refinement has made to the cameras and colors so far; see
        `refinement_report`."""
        return refinement_report(self.trainer.refinement, self.state.average)

    def views(self, split: str, *, progress: bool = True) -> Views:
        """Return the images and cameras of a split, for comparison with renderings.

        If the run refines poses or lenses, the training views have the refined cameras, and the
        cameras of the other views are aligned with the refined cameras; see
        `nerfmac.training.held_out`.

        Args:
            split: Name of the split.
            progress: Whether to show progress bars.

        Returns:
            Views with cameras in scene coordinates.

        Raises:
            InputError: If the scene does not have the split, or its images cannot be read.
        """
        views, key = self.images().views(split, progress=progress), (split, self.state.step)
        if self.config.refine.cameras and key not in self._aligned:
            is_trained, trained = split == "train", (self.trainer, self.state)
            refined = refined_views(*trained, views, is_trained=is_trained, progress=progress)
            self._aligned = {key: refined}
        refined = self._aligned.get(key, views)
        return self.trainer.refinement.with_depth(refined, self.state.average)

    def images(self) -> Scene:
        """Return the scene of the run, with the paths of its images. If the run was loaded from a
        folder, the first call reads the scene again.

        Returns:
            The scene.

        Raises:
            InputError: If the files of the scene cannot be read.
        """
        self.source = self.source or read_again(self.scene)
        return self.source
