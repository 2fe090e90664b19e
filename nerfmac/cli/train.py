"""`nerfmac train`: a scene in, a run folder with its quality and a video out."""

from __future__ import annotations

import logging
import signal
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from nerfmac.backend import (
    backend,
    choose_device,
    current_device,
    device_name,
    memory_bytes,
    uncompiled,
)
from nerfmac.backend.memory import check_memory_limit, limit_memory
from nerfmac.backend.variants import choose_first
from nerfmac.capture import captured
from nerfmac.cli.arguments import optional, unboxed
from nerfmac.cli.choices import Device, Model, Preset
from nerfmac.cli.failures import explained, keeping
from nerfmac.cli.outputs import save_preview, save_turntable, summary
from nerfmac.cli.scene_flags import SceneFlags
from nerfmac.common.checks import InputError
from nerfmac.common.files import check_free, write_json
from nerfmac.config import Config, override
from nerfmac.config.presets import preset as presets
from nerfmac.inspection import training_findings
from nerfmac.ranks import Ranks, join
from nerfmac.refine.report import refinement_summary
from nerfmac.rendering.evaluation import measured
from nerfmac.run import (
    CONFIGURED,
    Run,
    Scalars,
    check_limits,
    check_memory,
    check_tensorboard,
    fitted,
    log_memory,
    read_record,
)
from nerfmac.scenes import builtin_scene_path, load_scene, recorded_path
from nerfmac.scenes.options import SceneOptions, described
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")

SPARE_SECONDS = 28.0
"""The whole command ends within twice the training time and half a minute; starting Python and
ending it take the rest of that."""
LEAST_SECONDS = 5.0
"""For what follows training, also where loading and compiling have taken all the time."""
EVALUATION, PREVIEW, VIDEO = 1 / 2, 1 / 4, 2 / 3
"""Fractions of the time that is left when each of them begins."""


@dataclass(frozen=True)
class Arguments(Config, SceneFlags):
    """Train a radiance field on a scene, evaluate it and render a turntable video of it."""

    scene: Annotated[Path | None, tyro.conf.Positional, optional("[SCENE]")] = None
    """Folder of a scene: of Blender, instant-ngp, nerfstudio, COLMAP, LLFF, Record3D or Polycam; or
    a video or a folder of photographs, captured first. Without it, the built-in scene."""
    out: Annotated[Path | None, optional("FOLDER")] = None
    """Folder of the run; by default runs/SCENE-TIME."""
    steps: Annotated[int | None, optional("INT")] = None
    """Training steps in all; by default --train.steps."""
    seconds: Annotated[float | None, optional("FLOAT")] = None
    """Seconds of training in all, in place of --steps."""
    device: Device = "auto"
    """What computes."""
    preset: Preset = "auto"
    """Size of the model; auto chooses by device and memory."""
    resume: bool = False
    """Go on with the run in --out, with its own scene and configuration."""
    tensorboard: bool = False
    """Write scalars and pictures for TensorBoard to FOLDER/tensorboard too."""
    compile: bool = True
    """--no-compile: run MLX's operations one after the other as they are written, for debugging."""
    memory_limit: Annotated[float | None, optional("GIB")] = None
    """Most memory of the device to take, in GiB; by default all."""
    memory_fraction: Annotated[float | None, optional("FRACTION")] = None
    """The same as a fraction of the device's memory."""
    video: bool = True
    """Render a turntable video at the end."""
    all_views: bool = False
    """Evaluate every test view, however long it takes; by default as many as fit into the time that
    is left when the whole command is to end within twice the training time and half a minute."""

    def __post_init__(self) -> None:
        """Nothing: `auto` is no preset of a configuration yet, and `config` checks the rest."""

    def config(self, preset: str) -> Config:
        """The run's numbers alone, with the preset that `auto` stands for here."""
        numbers = {each.name: getattr(self, each.name) for each in fields(Config)}
        return Config(**numbers | {"preset": preset})


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Train as `argv` says; return the exit code."""
    # What the configuration's flags default to depends on the preset: it is looked for first.
    early = tyro.cli(
        _Early, prog="nerfmac train", args=_only(argv, "--preset", "--device", "--model")
    )
    choose_device(early.device)
    default = presets(early.preset, current_device(), memory_bytes(), early.model)
    numbers = {each.name: getattr(default, each.name) for each in fields(Config)}
    with unboxed():
        default_arguments = Arguments(**numbers)
        arguments = tyro.cli(Arguments, prog="nerfmac train", args=argv, default=default_arguments)
    # A terminated run is saved like an interrupted one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config = arguments.config(default.preset)
    if arguments.resume and (config != default or _only(argv, "--preset", "--model")):
        raise InputError("--resume goes on with the run's own configuration; leave out its flags")
    return _train(arguments, config, method)


@dataclass(frozen=True)
class _Early:
    preset: Preset = "auto"
    device: Device = "auto"
    model: Model = "hash"


def _only(argv: list[str], *flags: str) -> list[str]:
    """The flags named and their values, from all the arguments."""
    kept = []
    for i, word in enumerate(argv):
        name, _, value = word.partition("=")
        if name in flags:
            kept += [name, value] if value else argv[i : i + 2]
    return kept


def _train(arguments: Arguments, config: Config, method: Method) -> int:
    start = time.perf_counter()
    check_limits(arguments.steps, arguments.seconds)
    check_memory_limit(arguments.memory_limit, arguments.memory_fraction)
    if arguments.tensorboard:
        check_tensorboard()
    ranks = join()
    if not ranks.is_first:
        log.setLevel(logging.WARNING)  # the first one speaks for all
    run, out, needed = _begin(arguments, config, method, ranks)
    before = run.state.train_seconds
    log.info("%s, %s back end, preset %s", device_name(), backend(), run.config.preset)
    if run.config.model == "hash":
        choose_first(run.config, run.scene.extent, shows_bar=ranks.is_first)
    limits = {"--steps": arguments.steps, "--seconds": arguments.seconds}
    with ExitStack() as stack:
        stack.enter_context(run.locked())
        scalars = None  # the first rank's: one of them writes
        if ranks.is_first:
            scalars = Scalars(out, step=run.state.step, tensorboard=arguments.tensorboard)
            stack.enter_context(closing(scalars))
        if not arguments.compile:
            stack.enter_context(uncompiled())
        with explained(run, out, limits, needed):
            on_report = scalars.add if scalars else None
            run.train(
                steps=arguments.steps,
                seconds=arguments.seconds,
                progress=ranks.is_first,
                on_report=on_report,
            )
        log_memory("after training")
        if scalars:
            with keeping(f"the trained run is in {out}; `nerfmac eval {out}` says how good it is"):
                _finish(run, out, start, run.state.train_seconds - before, arguments, scalars)
    return 0


def _begin(
    arguments: Arguments, config: Config, method: Method, ranks: Ranks
) -> tuple[Run, Path, dict[str, int]]:
    """The run to train, its folder, and what memory it needs."""
    if arguments.out and not arguments.resume and ranks.is_first:
        check_free(arguments.out)  # before a capture, and what else may take long
    scene_path, options = _scene_of(arguments)
    scene = load_scene(scene_path, **vars(options))
    out = arguments.out or Path("runs") / f"{scene.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if arguments.steps is not None:
        config = override(config, train={"steps": arguments.steps})
    resumed = None
    if arguments.resume and ranks.is_first:  # one of them locks and writes
        resumed = Run.resume(out, scene, method=method)
    elif arguments.resume:
        resumed = Run.load(out, method=method, source=scene)
    config = resumed.config if resumed else fitted(config, scene, method)
    limit = limit_memory(arguments.memory_limit, arguments.memory_fraction)
    needed = check_memory(config, scene, method, limit)
    if scene.splits.get("test"):
        # A broken picture is found now and not after training.
        scene.views("test", progress=ranks.is_first)
    folder = out if ranks.is_first else None  # one of them writes
    run = resumed or Run.begin(scene, config, method=method, out=folder, progress=ranks.is_first)
    run.folder = folder
    if ranks.is_first and not arguments.resume:
        for line in training_findings(scene):
            log.warning("%s", line)
    return run, out, needed


def _scene_of(arguments: Arguments) -> tuple[Path, SceneOptions]:
    """The scene's path and how to read it: as given, else as the run to resume has it."""
    options = arguments.options()  # what is wrong in them is found before a capture
    if not arguments.resume:
        return captured(arguments.scene) if arguments.scene else builtin_scene_path(), options
    if arguments.out is None:
        raise InputError("--resume needs --out, the folder of the run to go on with")
    record = read_record(arguments.out)
    arguments.check_as_in(record, arguments.out)
    path = captured(arguments.scene) if arguments.scene else recorded_path(record)
    return path, record.options


def _finish(
    run: Run, out: Path, start: float, trained: float, arguments: Arguments, scalars: Scalars
) -> None:
    """Evaluate the run and draw it, in the time that `trained` seconds of training allow."""
    deadline = start + 2.0 * trained + SPARE_SECONDS

    def left() -> float:
        return max(deadline - time.perf_counter(), LEAST_SECONDS)

    has_test = bool(run.pictures().splits.get("test"))
    of = len(run.pictures().splits["test"]) if has_test else 0
    begin, limit = time.perf_counter(), None if arguments.all_views else EVALUATION * left()
    views = run.evaluate("test", seconds=limit) if has_test else []
    if arguments.all_views:
        deadline += time.perf_counter() - begin
    part = measured(views, of, "test")
    if views and (len(views) < of or views[0].row_fraction < 1.0):
        log.info("as time is short, evaluated %s; --all-views evaluates all", part)
    if said := refinement_summary(run.refined):
        log.info("%s", said)
    save_preview(out / "preview.png", run, has_test=has_test, seconds=PREVIEW * left())
    metrics = summary(run, views, of, wall_seconds=time.perf_counter() - start)
    write_json(out / "metrics.json", metrics)
    scalars.result(run.state.step, out / "preview.png", views)
    if arguments.video:  # last: of all these it is what may fail
        save_turntable(out / "video.mp4", run, VIDEO * left())
    held_out = described(run.scene.options.split)
    quality = f"no test views ({held_out})"
    if views:
        quality = f"PSNR {metrics['psnr_test']:.2f} dB, SSIM {metrics['ssim_test']:.3f}"
        quality += f" on {part} ({held_out})"
    print(
        f"{out}: {run.state.step} steps in {run.state.train_seconds:.1f} s "
        f"on {metrics['device_name']}; {quality}",
        file=sys.stdout,
    )
