"""`Run`, the field of a scene during or after training, in memory and as a folder.

    config.json             all settings of the run
    scene.json              the scene without its images and points
    checkpoint.safetensors  the training state, for resuming and rendering

`Training` trains a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from tqdm.auto import tqdm

from nerfmac.app.paths import orbit
from nerfmac.app.paths.rig import look_at_point
from nerfmac.app.run import configuration, folder as run_folder
from nerfmac.app.run.configuration import CONFIGURED
from nerfmac.app.run.refinements import refinement_report
from nerfmac.app.run.reporting import History, read_notes
from nerfmac.app.scenes import Scene, read_again
from nerfmac.app.scenes.scene import check_same
from nerfmac.backend.watchdog import confirm
from nerfmac.common import Float64Array, InputError, checks, interval, make_folder, user_path
from nerfmac.common.files import read_json, write_json
from nerfmac.config import REFINED, Config, override
from nerfmac.geometry import Camera, Views
from nerfmac.ranks import current_ranks
from nerfmac.rendering.evaluation import Evaluation, OnView, evaluate
from nerfmac.rendering.renderer import Rendered, Renderer
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.grow import grown, grown_state
from nerfmac.training.held_out import refined_views
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.resolve import resolve
from nerfmac.training.state import TrainState

CURVE_POINTS = 100  # Maximum number of points in `Run.curve`.


@dataclass(eq=False)
class Run:
    """Field of a scene, during or after training. Renderings use the averaged parameters.

    Examples:
        >>> run = nerfmac.train(scene, "tiny", nerfmac.Goal(steps=5), progress=False)
        >>> run
        Run(..., tiny, 5 steps, ... s)
        >>> run.save("run")
        >>> nerfmac.Run.load("run").state.step
        5
    """

    scene: Scene
    """Scene without images if the run was loaded from a folder."""
    model: Model
    state: TrainState
    history: History = field(default_factory=History)
    """Loss and PSNR of the steps so far."""
    source: Scene | None = None
    """Scene with its images, or None until the images are needed."""
    build_seconds: float = 0.0
    """Total compilation time of kernels in seconds."""
    rates: tuple[float, float] = (0.0, 0.0)
    """Number of rays and of samples per second of training, averaged over about twenty reports."""
    name: str = ""  # Name of the run folder or, for a run in memory, of the scene.
    # Views with refined cameras, for the last split and step.
    _aligned: dict[tuple[str, int], Views] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.name or self.scene.name

    @classmethod
    def begin(
        cls,
        scene: Scene,
        config: Config | str = "auto",
        *,
        method: Method = CONFIGURED,
        progress: bool = True,
    ) -> Run:
        """Create a run on the training views of a scene, before the first step.

        Args:
            scene: Scene to train on.
            config: All settings, or the name of a preset, as in `nerfmac.train`.
            method: Custom field, sampler, or loss.
            progress: Whether to show a progress bar while images are decoded.

        Returns:
            The run before the first step.

        Raises:
            InputError: If the scene has no training views, the scene, configuration, and method are
                incompatible, or the memory is too small. These conditions are checked before images
                are decoded, unless the method has a custom field or sampler. Also if an image
                cannot be decoded.
        """
        configuration.check_method(method)
        facts = configuration.facts_of(scene)
        config = resolve(configuration.config_of(config), facts)
        # A custom component is created once, when all settings are known.
        if not method.has_components:
            model = Model(config, scene.bounds, facts.cameras, method)
            configuration.check_memory(model, scene)
        views = scene.views("train", progress=progress)
        model = Model(resolve(config, facts, views), scene.bounds, views.cameras, method)
        configuration.check_memory(model, scene)
        recorded = scene.recorded(views.mean_color())
        return cls(recorded, model, model.init(views), source=scene)

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
            the same folder, use `nerfmac.resume`.

        Raises:
            InputError: If `folder` is not a run, a file is invalid, the field or the sampler
                differs from the one in training, or `source` and the run have different training
                views.
        """
        configuration.check_method(method)
        folder = user_path(folder)
        scene = run_folder.read_scene(folder)
        if source is not None:
            check_same(source, scene, str(folder))
            scene = replace(scene, path=source.path and source.path.resolve())
        config = Config.from_json(read_json(folder / "config.json"))
        model = Model(config, scene.bounds, scene.cameras("train"), method)
        path = folder / "checkpoint.safetensors"
        state, notes = load_checkpoint(path, model.shapes, method.own)
        history, seconds, rates = read_notes(notes, str(path))
        run = cls(scene, model, state, history, source, seconds, rates)
        run.name = folder.resolve().name
        return run

    def __repr__(self) -> str:
        state = f"{self.state.step} steps, {self.state.train_seconds:.1f} s"
        return f"Run({self.scene.path or 'a scene in memory'}, {self.config.preset}, {state})"

    @property
    def config(self) -> Config:
        """All settings of the run."""
        return self.model.config

    @property
    def skipped_steps(self) -> int:
        """Number of steps that were skipped because a gradient was not finite."""
        return int(self.state.scaling["skipped"])

    @property
    def curve(self) -> list[tuple[int, float, float]]:
        """Training curve with up to 100 points (step, training time in seconds, training PSNR in
        dB)."""
        return self.history.curve(CURVE_POINTS)

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
        views = self.images().views("train")
        self.model = self._model_of(override(self.config, refine=switches), views)
        self.state = self.model.init(views)

    def grow(self) -> None:
        """Continue with the sizes of the preset, as after `train.grow_at` steps. The field does not
        change.

        Raises:
            InputError: If the images cannot be read.
        """
        before, after = self.config, grown(self.config)
        model = self._model_of(after, self.images().views("train"))
        self.state = grown_state(self.state, before, after, self.scene.bounds)
        self.model = model

    def _model_of(self, config: Config, views: Views) -> Model:
        return Model(config, self.scene.bounds, views.cameras, self.model.method)

    def copy(self) -> Run:
        """Return an independent copy of the run. The copy can be used on any thread.

        Returns:
            Copy in memory.
        """
        mx.eval(self.state.arrays())
        return replace(self, history=History(self.curve))

    def save(self, folder: str | Path) -> None:
        """Save the run.

        Args:
            folder: Run folder. If the folder does not exist, it is created.

        Raises:
            InputError: If the files cannot be written.
        """
        folder = user_path(folder)
        make_folder(folder)
        if current_ranks().size == 1:  # With several, launches may wait for a rank that is lost.
            confirm()
        self.save_confirmed(folder)

    def save_confirmed(self, folder: Path) -> None:
        """Save the run, whose state must be confirmed (see `nerfmac.backend.watchdog`). The device
        is not used, so that a run can be saved after the device has failed.

        Args:
            folder: Existing run folder.

        Raises:
            InputError: If the files cannot be written.
        """
        run_folder.write_scene(folder, self.scene)
        write_json(folder / "config.json", self.config.to_json())
        notes = {"curve": self.curve, "build_seconds": self.build_seconds, "rates": self.rates}
        path = folder / "checkpoint.safetensors"
        with interval("checkpoint", step=self.state.step):
            save_checkpoint(path, self.state, notes, self.model.method.own)

    def renderer(self) -> Renderer:
        """Return a renderer of the current field.

        Returns:
            Renderer of the current state. Later training does not affect it.
        """
        return self.model.renderer(self.state)

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
        cameras, up, center = self.scene.cameras("train"), self.scene.up, self.center()
        return orbit(cameras, up=up, frames=frames, size=size, center=center)

    def center(self) -> Float64Array | None:
        """Return the center of camera paths around the subject.

        Returns:
            Point (3,) in scene coordinates that the training cameras look at, or None if there is
            no such point.
        """
        cameras, scene = self.scene.cameras("train"), self.scene
        return look_at_point(self.renderer(), cameras, scene.up, scene.subject)

    def evaluate(
        self,
        split: str = "test",
        background: str = "white",
        *,
        limit: int | None = None,
        progress: bool = True,
        on_view: OnView | None = None,
    ) -> Evaluation:
        """Measure PSNR and SSIM of the views of a split.

        Args:
            split: Name of the split, such as `train`, `val`, or `test`.
            background: `white` or `black`, the color behind renderings and transparent photos.
            limit: Maximum number of views. If the split has more views, evenly spaced views are
                evaluated, the same ones in every call. By default, all views are evaluated.
            progress: Whether to show a progress bar.
            on_view: Function that receives the metrics and the images of each view.

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
        outcomes = evaluate(self.renderer, views, background, blend, limit=limit, on_view=on_view)
        total = min(len(views.names), limit or len(views.names))
        bar = tqdm(outcomes, f"{split} views", total, disable=not progress, unit="view")
        ordered = sorted(bar, key=lambda view: views.names.index(view.name))
        return Evaluation(ordered, split=split, of=len(views.names))

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """Training cameras in scene coordinates. If the run refines poses or lenses, the cameras
        have the refined values."""
        if not self.config.refine.cameras:
            return self.scene.cameras("train")
        cameras = self.model.refinement.cameras(self.state.average)
        return tuple(cameras[index] for index in range(len(cameras)))

    @property
    def refined(self) -> dict[str, Any]:
        """Summary of the changes that refinement has made to the cameras and colors so far; see
        `refinement_report`."""
        return refinement_report(self.model.refinement, self.state.average)

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
            is_trained, trained = split == "train", (self.model, self.state)
            refined = refined_views(*trained, views, is_trained=is_trained, progress=progress)
            self._aligned = {key: refined}
        refined = self._aligned.get(key, views)
        return self.model.refinement.with_depth(refined, self.state.average)

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
