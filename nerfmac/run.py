"""`Run`: a trained field with what belongs to it, in memory and as a folder.

    config.json             every number of the run
    scene.json              where the pictures are, and the cameras that took them
    checkpoint.safetensors  the state, to resume from and to render

`train` makes one. The command line and a notebook do the same through it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqdm.auto import tqdm

from nerfmac import checks
from nerfmac.backend import backend, choose_device, current_device, device_name, memory_bytes
from nerfmac.checks import InputError
from nerfmac.config import Config, override
from nerfmac.config import preset as presets
from nerfmac.files import read_json, write_json
from nerfmac.geometry.cameras import Camera
from nerfmac.paths.orbit import orbit
from nerfmac.rendering.evaluation import ViewQuality, evaluate
from nerfmac.rendering.renderer import Rendered, Renderer
from nerfmac.scenes import Scene, load_scene
from nerfmac.scenes.record import SceneRecord
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Report, Trainer

log = logging.getLogger("nerfmac")

SAVE_SECONDS = 30.0
"""Between two checkpoints of a run that goes on."""

CURVE_POINTS = 100
"""Points of a run's curve."""


@dataclass
class Run:
    """A field, trained or in training. Rendering uses the averaged parameters."""

    config: Config
    scene: SceneRecord
    trainer: Trainer
    state: TrainState
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    """(step, seconds of training, PSNR in dB of the training pixels since the last point)."""
    source: Scene | None = None
    """The scene itself, if it is at hand."""
    build_seconds: float = 0.0
    """Spent building and compiling kernels, in all."""
    rates: tuple[float, float] = (0.0, 0.0)
    """Rays and samples per second of training, over the last part of it."""

    @classmethod
    def begin(cls, scene: Scene, config: Config) -> Run:
        """The run on `scene`'s training views, before the first step. Raises `InputError`."""
        trainer = Trainer(config, scene.extent, scene.views("train"))
        return cls(config, SceneRecord.of(scene), trainer, trainer.init(), source=scene)

    def renderer(self) -> Renderer:
        """Renders the field as it stands."""
        return self.trainer.renderer(self.state)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> Rendered:
        """One picture; to render many, take `renderer()` once."""
        return self.renderer().render(camera, background)

    def orbit(self, frames: int, size: tuple[int, int] | None = None) -> list[Camera]:
        """Cameras on a closed path around what the training cameras saw."""
        return orbit(self.scene.cameras, up=self.scene.up, frames=frames, size=size)

    def evaluate(
        self, split: str = "test", background: str = "white", *, progress: bool = True
    ) -> list[ViewQuality]:
        """PSNR and SSIM of every view of a split, from the scene's pictures."""
        views = self.pictures().views(split)
        blend = self.config.train.blend
        outcomes = evaluate(self.renderer(), views, background, blend)
        total = len(views.names)
        return list(tqdm(outcomes, f"{split} views", total, disable=not progress, unit="view"))

    def pictures(self) -> Scene:
        """The scene with its pictures, read again if need be. Raises `InputError`."""
        if self.source is None:
            if self.scene.path is None:
                raise InputError("the run's scene was never in files: it cannot be read again")
            self.source = load_scene(self.scene.path, test_every=self.scene.test_every)
        return self.source

    def smooth_rates(self, report: Report) -> None:
        """Let `rates` follow what `report` measured."""
        old, new = self.rates, (report.rays_per_second, report.samples_per_second)
        if any(old):
            new = old[0] + 0.05 * (new[0] - old[0]), old[1] + 0.05 * (new[1] - old[1])
        self.rates = new

    def save(self, folder: str | Path) -> None:
        """Write the run to `folder`, which is made if absent. Raises `InputError`."""
        folder = Path(folder)
        make_folder(folder)
        write_json(folder / "config.json", self.config.to_json())
        write_json(folder / "scene.json", self.scene.to_json())
        self.save_checkpoint(folder)

    def save_checkpoint(self, folder: Path) -> None:
        """Write the state alone, into a folder that holds the rest."""
        notes = {"curve": self.curve, "build_seconds": self.build_seconds, "rates": self.rates}
        save_checkpoint(folder / "checkpoint.safetensors", self.state, notes)

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """The run saved in `folder`, on the current device; the pictures are not needed.

        Raises `InputError` for a folder that holds none, or a broken one.
        """
        folder = Path(folder)
        scene = read_record(folder)
        config = Config.from_json(read_json(folder / "config.json"))
        trainer = Trainer(config, scene.extent)
        state, notes = load_checkpoint(folder / "checkpoint.safetensors", trainer.shapes)
        curve = [tuple(point) for point in notes["curve"]]
        return cls(
            config,
            scene,
            trainer,
            state,
            curve,
            build_seconds=notes["build_seconds"],
            rates=tuple(notes["rates"]),
        )


def configured(preset: str, seed: int) -> Config:
    """The preset's configuration for the present device. Raises `InputError`."""
    return override(presets(preset, current_device(), memory_bytes()), seed=seed)


def is_run(folder: Path) -> bool:
    """Whether a run was saved in `folder`."""
    return (folder / "config.json").is_file()


def read_record(folder: Path) -> SceneRecord:
    """What the run in `folder` remembers of its scene. Raises `InputError` if it holds no run."""
    if not is_run(folder):
        raise InputError(f"{folder} is not a run: it has no config.json")
    path = folder / "scene.json"
    return SceneRecord.from_json(read_json(path), path)


def make_folder(folder: Path) -> None:
    """Make `folder` and those above it. Raises `InputError` if that is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {folder} cannot be made: {error.strerror}") from error


def train(
    scene: Scene | str | Path,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    preset: str = "auto",
    device: str = "auto",
    seed: int = 0,
    config: Config | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    test_every: int | None = None,
    progress: bool = True,
    on_report: Callable[[Report], None] | None = None,
) -> Run:
    """Train a field on a scene.

    Args:
        scene: a `Scene`, or the path of one.
        steps, seconds: how long, in all; by default the preset's number of steps.
        preset: `tiny`, `small`, `base`, `big`, or `auto`, which chooses by device and memory.
        device: `auto`, `metal`, `cuda` or `cpu`.
        seed: of everything random.
        config: every number, in place of `preset` and `seed`.
        out: a folder to save the run in: at first, every half minute and at the end.
        resume: go on with the run in `out`, with its own configuration.
        test_every: see `load_scene`; only where `scene` is a path.
        progress: show a bar.
        on_report: called with each `Report`.

    An interruption (Ctrl-C) is raised once the run so far is saved.

    Raises:
        InputError: what was asked for cannot be done.
        DivergedError: the loss is no longer finite; the last good state is saved.
    """
    choose_device(device)
    folder = Path(out) if out is not None else None
    _check_request(steps, seconds, folder, resume)
    source = scene if isinstance(scene, Scene) else load_scene(scene, test_every=test_every)
    views = source.views("train")
    if resume and folder is not None:
        run = Run.load(folder)
        if not _agree(run.scene, SceneRecord.of(source)):
            raise InputError(
                f"{folder} was trained on {run.scene.path}, from other views than those of the "
                f"scene {source.name!r}; resume it with its own scene and test_every"
            )
        run.trainer, run.source = Trainer(run.config, run.scene.extent, views), source
    else:
        chosen = config or configured(preset, seed)
        if steps is not None:
            chosen = override(chosen, train={"steps": int(steps)})
        run = Run.begin(source, chosen)
        if folder is not None:
            run.save(folder)
    if steps is None and seconds is None:
        steps = run.config.train.steps
    log.info("%s, %s back end, preset %s", device_name(), backend(), run.config.preset)
    run.build_seconds += run.trainer.compile(run.state)
    _fit(run, steps, seconds, folder, progress, on_report)
    return run


def _check_request(
    steps: int | None, seconds: float | None, folder: Path | None, resume: bool
) -> None:
    if steps is not None and seconds is not None:
        raise InputError("both steps and seconds are given; expected one of them")
    if steps is not None:
        checks.number("steps", steps, low=1, whole=True)
    if seconds is not None:
        checks.number("seconds", seconds, low=1e-3)
    if resume and folder is None:
        raise InputError("resume needs the folder of the run to go on with")
    if folder is not None and not resume:
        check_free(folder)


def check_free(folder: Path) -> None:
    """Raise `InputError` if `folder` exists and is more than an empty folder."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder} exists already; resume it or name another folder")


def _agree(one: SceneRecord, other: SceneRecord) -> bool:
    """Whether both have the same training views, wherever they are kept."""
    kept = [replace(each, path=None, test_every=None).to_json() for each in (one, other)]
    return kept[0] == kept[1]


def _fit(
    run: Run,
    steps: int | None,
    seconds: float | None,
    folder: Path | None,
    progress: bool,
    on_report: Callable[[Report], None] | None,
) -> None:
    """Train `run` on, with a bar and checkpoints; also after an interruption it is saved."""
    done = run.state.step if steps else run.state.train_seconds
    bar = tqdm(
        total=steps or seconds,
        initial=done,
        unit="steps" if steps else "s",
        disable=not progress,
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left{postfix}",
    )
    saved, recent = time.perf_counter(), []
    try:
        for report in run.trainer.fit(run.state, steps=steps, seconds=seconds):
            run.state = state = report.state
            recent.append(report.psnr)
            if report.progress >= (len(run.curve) + 1) / CURVE_POINTS:
                run.curve.append((state.step, state.train_seconds, sum(recent) / len(recent)))
                recent = []
            run.smooth_rates(report)
            bar.set_postfix_str(_status(report), refresh=False)
            bar.update(min(state.step if steps else state.train_seconds, bar.total or 0) - bar.n)
            if on_report:
                on_report(report)
            if folder is not None and time.perf_counter() - saved > SAVE_SECONDS:
                run.save_checkpoint(folder)
                saved = time.perf_counter()
    finally:
        # Also after Ctrl-C and after divergence: run.state is the last good one.
        bar.close()
        if folder is not None:
            run.save_checkpoint(folder)


def _status(report: Report) -> str:
    return (
        f"step {report.state.step}, loss {report.loss:.4f}, {report.psnr:.1f} dB, "
        f"{report.rays_per_second / 1e3:.0f}k rays/s, "
        f"{report.samples_per_second / 1e3:.0f}k samples/s"
    )
