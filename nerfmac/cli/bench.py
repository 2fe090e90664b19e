"""`nerfmac bench`: how fast this machine computes and learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from nerfmac import checks
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.checks import InputError
from nerfmac.cli.arguments import optional, unboxed
from nerfmac.cli.choices import Device, Preset
from nerfmac.cli.scene_flags import SceneFlags
from nerfmac.config import Config, RanksConfig, override
from nerfmac.files import appearing, write_json
from nerfmac.film import check_video
from nerfmac.measure import bench
from nerfmac.measure.bench.plot import check_plot
from nerfmac.presets import preset
from nerfmac.ranks import LostRankError, join
from nerfmac.run import Run
from nerfmac.scenes import Scene, builtin_scene_path, load_scene
from nerfmac.training.measured import DivergedError

ROOFLINE_PRESET = "base"
"""What `--roofline` takes for `auto`: the chips it estimates have GPUs."""

FIGURE_SECONDS = 1.0
MODELS_SECONDS = 60.0
SCALING_SECONDS = 15.0


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Time every operation by kernel and by reference, and a picture."""

    preset: Preset = "auto"
    """Whose sizes."""
    device: Device = "auto"
    """What computes."""
    seconds: Annotated[float | None, optional("FLOAT")] = None
    """Time for each figure, about: 1; with --models, seconds of training for each model: 60."""
    scene: Annotated[Path | None, optional("SCENE")] = None
    """What is trained on; by default the built-in scene."""
    json: Annotated[Path | None, optional("FILE")] = None
    """Write the figures to this file too."""
    models: bool = False
    """Instead, train the vanilla and the hash model and follow the quality of both."""
    film: bool = False
    """Instead, make a film of the scene's orbit: rendered, encoded, and both at once."""
    vanilla_seconds: Annotated[float | None, optional("FLOAT")] = None
    """With --models, seconds of training for the vanilla model, in place of --seconds."""
    plot: Annotated[Path | None, optional("FILE.png")] = None
    """With --models, a PNG of both models' quality over time."""
    scaling: Annotated[int | None, optional("INT")] = None
    """Instead, train on 1 to so many ranks of this machine and follow rate and quality; within a
    job of several ranks, on those. With --seconds, of each training: 15. With --roofline, estimate
    what Macs in a ring would gain."""
    ranks: RanksConfig = field(default_factory=RanksConfig)
    roofline: bool = False
    """Instead, estimate a step's time on Apple's chips from its bytes and operations alone."""
    bandwidth: Annotated[float | None, optional("FLOAT")] = None
    """With --roofline, a chip's own bandwidth, GB/s; --rate goes with it."""
    rate: Annotated[float | None, optional("FLOAT")] = None
    """With --roofline, a chip's own rate, TFLOPS; --bandwidth goes with it."""


def main(argv: list[str]) -> int:
    """Measure as `argv` says; return the exit code."""
    with unboxed():
        arguments = tyro.cli(Arguments, prog="nerfmac bench", args=argv)
    _check(arguments)
    with ExitStack() as files:
        # Files that cannot be written fail now; they appear when they are complete.
        json, picture = (
            files.enter_context(appearing(path)) if path else None
            for path in (arguments.json, arguments.plot)
        )
        figures = _figures(arguments, picture)
        if json:
            write_json(json, figures)
    return 0


def _check(arguments: Arguments) -> None:
    """Refuse flags that do not fit together, and numbers out of range."""
    arguments.options()
    least = 0.1 if arguments.models else 0.01
    for name in ("seconds", "vanilla_seconds"):
        if (value := getattr(arguments, name)) is not None:
            checks.number(name, value, low=least)
    for flag, value in (("plot", arguments.plot), ("vanilla-seconds", arguments.vanilla_seconds)):
        if value is not None and not arguments.models:
            raise InputError(f"--{flag} belongs to --models; expected both")
    if arguments.plot:
        check_plot()
    if arguments.scaling is not None:
        checks.number("scaling", arguments.scaling, low=1, high=64, whole=True)
        if arguments.models:
            raise InputError("--scaling and --models are both given; expected one of them")
    elif arguments.ranks != RanksConfig():
        raise InputError("--ranks is how the ranks of --scaling exchange; expected both")
    own = {"bandwidth": arguments.bandwidth, "rate": arguments.rate}
    if any(value is not None for value in own.values()):
        if not arguments.roofline:
            raise InputError("--bandwidth and --rate are a chip's for --roofline; expected it too")
        for name, value in own.items():
            if value is None:
                raise InputError(f"--{name} is missing; --roofline takes --bandwidth and --rate")
            checks.number(name, value, low=1e-3)
    if arguments.roofline:
        for name in ("models", "scene", "seconds", "film"):
            if getattr(arguments, name) not in (None, False):
                raise InputError(f"--roofline measures nothing; expected no --{name} with it")
        arguments.refuse("none with --roofline")
    if arguments.film and (arguments.models or arguments.seconds is not None):
        raise InputError("--film takes its own time; expected no --models and no --seconds with it")


def _figures(arguments: Arguments, picture: Path | None) -> dict[str, Any]:
    """Do what is asked for, printing as it goes; return it as JSON values."""
    if arguments.roofline:
        return _roofline(arguments)
    choose_device(arguments.device)
    if arguments.scaling:
        return _scaling(arguments, arguments.scaling)
    scene = load_scene(arguments.scene or builtin_scene_path(), **vars(arguments.options()))
    if arguments.models:
        return _models(arguments, scene, picture)
    config = preset(arguments.preset, current_device(), memory_bytes())
    if arguments.film:
        return _film(scene, config)
    seconds = arguments.seconds or FIGURE_SECONDS
    return bench.benchmark(scene, config, seconds=seconds, on_line=_show).to_json()


_show: Callable[[str], None] = partial(print, flush=True)


def _roofline(arguments: Arguments) -> dict[str, Any]:
    name = ROOFLINE_PRESET if arguments.preset == "auto" else arguments.preset
    chips: Sequence[bench.Chip] = bench.CHIPS
    if arguments.bandwidth and arguments.rate:
        chips = (bench.Chip("as given", arguments.bandwidth, arguments.rate),)
    config = override(preset(name, "metal", 0), ranks=arguments.ranks)
    roofline = bench.Roofline(config, chips)
    if arguments.scaling:
        return _macs(roofline)
    print(roofline)
    return roofline.to_json()


def _film(scene: Scene, config: Config) -> dict[str, Any]:
    check_video(Path("film.mp4"), 24.0)  # before anything is trained
    about = machine()
    _show(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    speed = bench.time_film(bench.trained(Run.begin(scene, config), bench.STEPS))
    for line in speed.lines():
        _show(line)
    return {**about, "preset": config.preset, "scene": scene.name, **speed.to_json()}


def _macs(roofline: bench.Roofline) -> dict[str, Any]:
    tables = {}
    for estimate in roofline.estimates():
        name, step = estimate.chip.name, 1e-3 * estimate.uncached
        tables[name] = list(bench.ring_of_macs(roofline.config, step, f"estimated for an {name}"))
        _show("\n".join([*tables[name], ""]))
    return {"preset": roofline.config.preset, "estimated_not_measured": tables}


def _scaling(arguments: Arguments, most: int) -> dict[str, Any]:
    ranks, config = join(), preset(arguments.preset, current_device(), memory_bytes())
    try:
        return bench.measure_scaling(
            arguments.scene or builtin_scene_path(),
            override(config, ranks=arguments.ranks),
            arguments.options(),
            counts=range(1, most + 1),
            seconds=arguments.seconds or SCALING_SECONDS,
            on_line=_show if ranks.is_first else bench.no_line,
        )
    except (DivergedError, LostRankError) as error:
        raise InputError(f"the measurement ends early: {error}") from error


def _models(arguments: Arguments, scene: Scene, picture: Path | None) -> dict[str, Any]:
    seconds = dict.fromkeys(bench.MODELS, arguments.seconds or MODELS_SECONDS)
    if arguments.vanilla_seconds:
        seconds["vanilla"] = arguments.vanilla_seconds
    configs = bench.model_configs(arguments.preset)
    try:
        comparison = bench.compare_models(scene, configs, seconds=seconds)
    except DivergedError as error:
        raise InputError(f"the comparison ends early: {error}") from error
    for line in comparison.lines():
        _show(line)
    if picture:
        bench.plot_models(picture, comparison)
    return comparison.to_json()
