"""`nerfmac bench`: what this machine makes of every operation, of a training step and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import tyro

from nerfmac import checks
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.kernel import why_reference
from nerfmac.backend.machine import machine
from nerfmac.bench import roofline, tables
from nerfmac.bench.ceilings import ceilings
from nerfmac.bench.compare import compare
from nerfmac.bench.frame import time_frame
from nerfmac.bench.operations import measure_operations
from nerfmac.bench.parts import parts, step_json
from nerfmac.bench.plot import plot
from nerfmac.bench.roofline import Chip
from nerfmac.bench.steps import time_host, time_in_turns, time_launch, trained
from nerfmac.bench.work import Sizes
from nerfmac.checks import InputError
from nerfmac.cli.choices import Device, Preset
from nerfmac.config import Config
from nerfmac.files import appearing, write_json
from nerfmac.presets import preset
from nerfmac.scenes import Scene, builtin_scene_path, load_scene

GPU_PRESET = "base"
"""What `--roofline` takes for `auto`: the chips it speaks of have GPUs."""

STRETCH = 16.0
"""Times as long as for a figure, for the step in turns with shortened ones."""


@dataclass(frozen=True)
class Arguments:
    """Time every operation, a training step part by part, and a picture."""

    preset: Preset = "auto"
    """Whose sizes."""
    device: Device = "auto"
    """What computes."""
    seconds: float | None = None
    """Time for each figure, about: 1; with --compare, of training for each side: 60."""
    scene: Path | None = None
    """What is trained on; by default the built-in scene."""
    json: Path | None = None
    """Write the figures to this file too."""
    compare: Literal["torch"] | None = None
    """Instead, train beside the same method in PyTorch: time, and quality over time."""
    plot: Path | None = None
    """With --compare, a PNG of both sides' quality over time."""
    roofline: bool = False
    """Instead, estimate a step's time on Apple's chips from its bytes and operations alone."""
    bandwidth: float | None = None
    """With --roofline, a chip's own bandwidth, GB/s; --rate goes with it."""
    rate: float | None = None
    """With --roofline, a chip's own rate, TFLOPS; --bandwidth goes with it."""


def main(argv: list[str]) -> int:
    """Measure as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac bench", args=argv)
    _check(arguments)
    with ExitStack() as files:
        # Files that cannot be written are found out now, and appear when everything is there.
        json, picture = (
            files.enter_context(appearing(path)) if path else None
            for path in (arguments.json, arguments.plot)
        )
        figures = _figures(arguments, picture)
        if json:
            write_json(json, figures)
    return 0


def _check(arguments: Arguments) -> None:
    """Refuse flags that say nothing together, and numbers out of range."""
    if arguments.seconds is not None:
        low = 0.1 if arguments.compare else 0.01
        checks.number("seconds", arguments.seconds, low=low)
    if arguments.plot and not arguments.compare:
        raise InputError("--plot draws what --compare torch measures; expected both")
    own = {"bandwidth": arguments.bandwidth, "rate": arguments.rate}
    if any(value is not None for value in own.values()):
        if not arguments.roofline:
            raise InputError("--bandwidth and --rate are a chip's for --roofline; expected it too")
        for name, value in own.items():
            if value is None:
                raise InputError(f"--{name} is missing; --roofline takes --bandwidth and --rate")
            checks.number(name, value, low=1e-3)
    if arguments.roofline:
        for name in ("compare", "scene", "seconds"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--roofline measures nothing; expected no --{name} with it")


def _figures(arguments: Arguments, picture: Path | None) -> dict[str, Any]:
    """Do what is asked for, printing as it goes; return it as JSON values."""
    if arguments.roofline:
        return _roofline(arguments)
    choose_device(arguments.device)
    config = preset(arguments.preset, current_device(), memory_bytes())
    scene = load_scene(arguments.scene or builtin_scene_path())
    if arguments.compare:
        return _compare(scene, config, arguments.seconds or 60.0, picture)
    if why := why_reference():
        raise InputError(f"there are no kernels to time: {why}")
    return _measure(scene, config, arguments.seconds or 1.0)


def _roofline(arguments: Arguments) -> dict[str, Any]:
    name = GPU_PRESET if arguments.preset == "auto" else arguments.preset
    config = preset(name, "metal", 0)
    sizes = Sizes.of(config, 1.0, config.train.rays, on_gpu=True)
    chips: Sequence[Chip] = roofline.CHIPS
    if arguments.bandwidth and arguments.rate:
        chips = (Chip("as given", arguments.bandwidth, arguments.rate),)
    print(f"preset {config.preset}, half precision, a scene in the unit cube")
    for line in roofline.lines(sizes, chips):
        print(line)
    return {"preset": config.preset, **roofline.to_json(sizes, chips)}


def _compare(scene: Scene, config: Config, seconds: float, picture: Path | None) -> dict[str, Any]:
    if find_spec("torch") is None:
        raise InputError("there is no PyTorch to compare with; `pip install torch` brings it")
    scene.views("test")  # refuses a scene without any
    sides = f"{scene.name}, preset {config.preset}: each side trains for {seconds:g} s, in turns"
    print(sides, flush=True)
    comparison = compare(scene, config, seconds=seconds)
    for line in comparison.lines():
        print(line)
    if picture:
        plot(picture, comparison)
    return comparison.to_json()


def _measure(scene: Scene, config: Config, seconds: float) -> dict[str, Any]:
    """Everything on the current device."""
    scene.views("train")  # a broken picture is found before anything is measured
    about = machine()
    print(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    most = ceilings(seconds)
    print(f"{tables.ceilings_line(most)}\n\n{tables.OPERATIONS}", flush=True)
    operations = {}
    for row in measure_operations(config, seconds):
        print(tables.operation_line(row), flush=True)
        operations[row.name] = row.to_json()
    print(f"\ntraining on {scene.name}, for a step like those of a run", flush=True)
    trainer, state = trained(scene, config)
    turns = time_in_turns(trainer, scene, state, STRETCH * seconds)
    whole = turns.whole
    print(f"{tables.step_line(whole)}\n\n{tables.PARTS}", flush=True)
    launch = time_launch(seconds)
    done = []
    for part in parts(trainer, turns, launch, seconds):
        print(tables.part_line(part, most), flush=True)
        done.append(part)
    host = time_host(trainer, whole.state, seconds) if current_device() != "cpu" else None
    for line in tables.sum_lines(done, whole, launch, host):
        print(line)
    frame = time_frame(trainer, scene, whole.state, seconds)
    print(f"\n{tables.frame_line(frame)}")
    return {
        **about,
        "preset": config.preset,
        "scene": scene.name,
        "ceilings": most._asdict(),
        "operations": operations,
        "launch_ms": launch._asdict(),
        "host_ms": host._asdict() if host else None,
        "step": step_json(trainer, whole, done, most),
        "frame": frame.to_json(),
    }
