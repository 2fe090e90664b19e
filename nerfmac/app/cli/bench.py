"""`nerfmac bench`: measure the speed of this machine, or quality over training time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from nerfmac.app.cli.options import Bench
from nerfmac.app.measure import models
from nerfmac.app.measure.benchmark import benchmark
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing_if, write_json
from nerfmac.config.presets import preset
from nerfmac.training.measured import DivergedError

OF_MODELS = ("plot", "vanilla_seconds")  # Names of the options that require `--models`.
SECONDS = {True: 60.0, False: 1.0}  # Default of --seconds, keyed by whether --models is given.
_show = partial(print, flush=True)


def main(arguments: Bench) -> int:
    """Run `nerfmac bench` and return the exit code."""
    _check(arguments)
    with appearing_if(arguments.json) as json, appearing_if(arguments.plot) as image:
        figures = _figures(arguments, image)
        if json:
            write_json(json, figures)
    return 0


def _check(arguments: Bench) -> None:
    for name in OF_MODELS:
        if getattr(arguments, name) is not None and not arguments.models:
            raise InputError(f"--{name.replace('_', '-')} requires --models; add --models")
    for name in ("seconds", "vanilla_seconds"):
        if (value := getattr(arguments, name)) is not None:
            checks.number(name, value, low=0.1 if arguments.models else 0.01)
    arguments.options()
    if arguments.plot:
        models.check_plot()


def _figures(arguments: Bench, image: Path | None) -> dict[str, Any]:
    """Measure and print the results, and return them as JSON values."""
    choose_device(arguments.device)
    seconds = arguments.seconds or SECONDS[arguments.models]
    scene = load_scene(arguments.scene or builtin_scene_path(), **vars(arguments.options()))
    try:
        if arguments.models:
            return _models(arguments, scene, seconds, image)
    except DivergedError as error:
        raise InputError(f"the measurement stopped early: {error}") from error
    config = preset(arguments.preset, current_device(), memory_bytes())
    return benchmark(scene, config, seconds=seconds, on_line=_show)


def _models(arguments: Bench, scene: Scene, seconds: float, image: Path | None) -> dict[str, Any]:
    limits = dict.fromkeys(models.MODELS, seconds)
    limits["vanilla"] = arguments.vanilla_seconds or seconds
    configs = models.model_configs(arguments.preset)
    comparison = models.compare_models(scene, configs, seconds=limits)
    _show("\n".join(comparison.lines()))
    if image:
        models.plot_models(image, comparison)
    return comparison.to_json()
