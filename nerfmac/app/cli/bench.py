"""`nerfmac bench`: speed of this machine, and quality over training time."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nerfmac.app.cli.arguments import optional, unboxed
from nerfmac.app.cli.choices import Device, Preset
from nerfmac.app.cli.scene_flags import SceneFlags
from nerfmac.app.measure.bench import models
from nerfmac.app.measure.bench.benchmark import benchmark
from nerfmac.app.measure.bench.scaling import measure_scaling
from nerfmac.app.measure.bench.table import ResultTable
from nerfmac.app.measure.bench.trials import Trial, check_names, outcomes, parsed, trial_scene
from nerfmac.app.run import check_limits
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, write_json
from nerfmac.config import RanksConfig, override
from nerfmac.config.presets import preset
from nerfmac.ranks import LostRankError, join
from nerfmac.rendering.perceptual import Lpips
from nerfmac.training.measured import DivergedError

MODES = ("table", "scaling", "models")
"""Flags that replace the usual benchmark; they exclude each other."""
OF_MODES = {
    "models": ("plot", "vanilla_seconds"),
    "table": ("scenes", "seeds", "steps", "background", "lpips", "latex"),
}
"""Flags that need one of the modes."""
SECONDS = {"scaling": 15.0, "models": 60.0, "": 1.0}
"""Default of `--seconds` by mode; "" is the usual benchmark."""
SEEDS = 3
"""Default of `--seeds`."""
_show = partial(print, flush=True)


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Time each operation as a kernel and in plain MLX, and the rendering of a picture. --table,
    --models and --scaling measure something else."""

    scenes: Annotated[tuple[str, ...], tyro.conf.Positional, optional("[SCENE ...]")] = ()
    """With --table, scenes to train on, each a path or PATH:KEY=VALUE,KEY=VALUE. Keys are name, for
    the table, and downscale, max_images, split, extent and up, in place of the flags of that
    name."""
    preset: Preset = "auto"
    """Size of the model; auto chooses by device and memory."""
    device: Device = "auto"
    """Device that computes; auto takes the GPU if there is one."""
    seconds: Annotated[float | None, optional("FLOAT")] = None
    """Approximate time per measurement, by default 1 s; a longer time has less noise. Training time
    with --models (60 s by default) and --scaling (15 s)."""
    scene: Annotated[Path | None, optional("SCENE")] = None
    """Scene to train on; by default the built-in scene."""
    json: Annotated[Path | None, optional("FILE")] = None
    """Also write the figures to this JSON file."""
    table: bool = False
    """Instead of timing operations, train each SCENE with several seeds, evaluate every test view,
    and print a paper's table in Markdown. Training ends as in `nerfmac train`, after the preset's
    steps, --steps or --seconds."""
    seeds: Annotated[int | None, optional("INT")] = None
    """With --table, number of seeds, from 0; by default 3."""
    steps: Annotated[int | None, optional("INT")] = None
    """With --table, training steps of each run; by default the preset's."""
    background: Annotated[Literal["white", "black"] | None, optional("white|black")] = None
    """With --table, background behind renderings and photographs with alpha; by default white."""
    lpips: Annotated[Path | None, optional("WEIGHTS")] = None
    """With --table, also measure LPIPS, by these weights, as in `nerfmac eval`."""
    latex: Annotated[Path | None, optional("FILE.tex")] = None
    """With --table, also write the table in LaTeX to this file."""
    models: bool = False
    """Instead of timing operations, train both models and compare their PSNR over time."""
    vanilla_seconds: Annotated[float | None, optional("FLOAT")] = None
    """With --models, training time of the vanilla model; by default --seconds."""
    plot: Annotated[Path | None, optional("FILE.png")] = None
    """With --models, also draw PSNR over time to this PNG; needs the extra plot."""
    scaling: Annotated[int | None, optional("INT")] = None
    """Instead of timing operations, train with 1, 2, ... up to this many ranks (processes) on this
    machine; compare samples per second and PSNR. Started as a rank of a job, train on that job's
    ranks only."""
    ranks: RanksConfig = field(default_factory=RanksConfig)


def main(argv: list[str]) -> int:
    """Run `nerfmac bench` with the arguments `argv`; return the exit code."""
    with unboxed():
        arguments = tyro.cli(Arguments, prog="nerfmac bench", args=argv)
    mode = _mode(arguments)
    with ExitStack() as files:
        # Unwritable files fail here; the files appear when they are complete.
        json, picture, latex = (
            files.enter_context(appearing(path)) if path else None
            for path in (arguments.json, arguments.plot, arguments.latex)
        )
        if mode == "table":
            table = _table(arguments)
            _show("\n".join(table.markdown()))
            if latex:
                latex.write_text("\n".join(table.latex()) + "\n", encoding="utf-8")
        figures = table.to_json() if mode == "table" else _figures(arguments, mode, picture)
        if json:
            write_json(json, figures)
    return 0


def _mode(arguments: Arguments) -> str:
    """The mode of `MODES` that `arguments` ask for; "" for the usual benchmark.

    Raises `InputError` for flags that exclude each other and for numbers out of range.
    """
    if arguments.scaling is not None:
        checks.number("scaling", arguments.scaling, low=1, high=64, whole=True)
    first, *others = [name for name in MODES if getattr(arguments, name)] or [""]
    if others:
        raise InputError(f"--{first} and --{others[0]} are both given; expected one of them")
    for mode, names in OF_MODES.items():
        for name in names:
            if getattr(arguments, name) not in (None, ()) and first != mode:
                flag = "SCENE" if name == "scenes" else f"--{name.replace('_', '-')}"
                raise InputError(f"{flag} needs --{mode}; add it")
    if first == "table":
        if arguments.scene:
            raise InputError("--table and --scene are both given; name scenes alone: --table SCENE")
        checks.number(
            "seeds", SEEDS if arguments.seeds is None else arguments.seeds, low=1, whole=True
        )
        check_limits(arguments.steps, arguments.seconds)
    for name in ("seconds", "vanilla_seconds"):
        if (value := getattr(arguments, name)) is not None:
            checks.number(name, value, low=0.1 if first == "models" else 0.01)
    if first != "scaling" and arguments.ranks != RanksConfig():
        raise InputError("--ranks needs --scaling; add it")
    arguments.options()
    if arguments.plot:
        models.check_plot()
    return first


def _table(arguments: Arguments) -> ResultTable:
    """Train all scenes with all seeds; each result is told as soon as it is there."""
    choose_device(arguments.device)
    options = arguments.given()
    scenes = [trial_scene(parsed(text), options) for text in arguments.scenes]
    check_names(scenes)
    if arguments.lpips:
        Lpips(arguments.lpips)  # unreadable weights fail before anything is trained
    settings: dict[str, Any] = {name: getattr(arguments, name) for name in ("seconds", "steps")}
    settings |= {"preset": arguments.preset, "device": arguments.device, "lpips": arguments.lpips}
    settings["background"] = arguments.background or "white"
    seeds = range(arguments.seeds or SEEDS)
    runs: dict[str, list[dict[str, Any]]] = {scene.name: [] for scene in scenes}
    for trial, run in outcomes(
        Trial(scene, seed, **settings) for scene in scenes for seed in seeds
    ):
        runs[trial.scene.name].append(run)
        print(f"{trial.scene.name}, seed {trial.seed}: {run['psnr']:.2f} dB", file=sys.stderr)
    return ResultTable(runs, machine())


def _figures(arguments: Arguments, mode: str, picture: Path | None) -> dict[str, Any]:
    """Measure in this `mode` and print the results; return them as JSON values."""
    choose_device(arguments.device)
    seconds = arguments.seconds or SECONDS.get(mode, 0.0)
    config = preset(arguments.preset, current_device(), memory_bytes())
    try:
        if mode == "scaling":
            return measure_scaling(
                arguments.scene or builtin_scene_path(),
                override(config, ranks=arguments.ranks),
                arguments.options(),
                counts=range(1, (arguments.scaling or 1) + 1),
                seconds=seconds,
                on_line=_show if join().is_first else lambda _line: None,
            )
        scene = load_scene(arguments.scene or builtin_scene_path(), **vars(arguments.options()))
        if mode == "models":
            return _models(arguments, scene, seconds, picture)
    except (DivergedError, LostRankError) as error:
        raise InputError(f"the measurement ends early: {error}") from error
    return benchmark(scene, config, seconds=seconds, on_line=_show)


def _models(
    arguments: Arguments, scene: Scene, seconds: float, picture: Path | None
) -> dict[str, Any]:
    limits = dict.fromkeys(models.MODELS, seconds)
    limits["vanilla"] = arguments.vanilla_seconds or seconds
    configs = models.model_configs(arguments.preset)
    comparison = models.compare_models(scene, configs, seconds=limits)
    _show("\n".join(comparison.lines()))
    if picture:
        models.plot_models(picture, comparison)
    return comparison.to_json()
