"""Where the time of training and rendering goes on this machine, from operations to a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nerfmac.backend import current_device
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import machine
from nerfmac.bench import tables
from nerfmac.bench.ceilings import Ceilings, measure_ceilings
from nerfmac.bench.frame import Frame, time_frame
from nerfmac.bench.operations import Measured, measure_operations
from nerfmac.bench.parts import Part, parts, step_json
from nerfmac.bench.steps import WholeStep, time_host, time_interleaved, time_launch, trained
from nerfmac.bench.timing import Timing
from nerfmac.checks import InputError
from nerfmac.config import Config
from nerfmac.run import Run
from nerfmac.scenes import Scene

INTERLEAVED = 16.0
"""Time for interleaved steps, in units of that for a single figure: there are many of them."""


@dataclass(frozen=True)
class Step:
    """A training step and its parts."""

    whole: WholeStep
    parts: list[Part]
    launch: Timing  # of an empty launch
    host: Timing | None  # of the host's work for a step; None where the host is the device


@dataclass(frozen=True)
class Profile:
    """What was measured, and on what."""

    machine: dict[str, str]
    config: Config
    scene: str
    ceilings: Ceilings
    operations: list[Measured]
    step: Step
    frame: Frame

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, times in milliseconds."""
        step = self.step
        return {
            **self.machine,
            "preset": self.config.preset,
            "scene": self.scene,
            "ceilings": self.ceilings._asdict(),
            "operations": {each.name: each.to_json() for each in self.operations},
            "launch_ms": step.launch._asdict(),
            "host_ms": step.host._asdict() if step.host else None,
            "step": step_json(self.config.train.slots, step.whole, step.parts, self.ceilings),
            "frame": self.frame.to_json(),
        }


def _no_line(_line: str) -> None:
    """Ignore the line."""


def profile(
    scene: Scene,
    config: Config,
    *,
    seconds: float = 1.0,
    on_line: Callable[[str], None] = _no_line,
) -> Profile:
    """Time every operation, a training step part by part, and a picture, on the current device.

    Args:
        scene: what is trained on, for the step and the picture.
        config: whose sizes the operations have, and what is trained.
        seconds: for each figure, about; a few minutes in all if it is 1.
        on_line: is given each line of a table for people as soon as it is known.

    Raises:
        InputError: no kernels run here, or a picture of the scene is broken.
    """
    if why := why_reference():
        raise InputError(f"there are no kernels to time: {why}")
    scene.views("train")  # a broken picture fails before anything is measured
    about = machine()
    on_line(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    most = measure_ceilings(seconds)
    on_line(f"{tables.ceilings_line(most)}\n\n{tables.OPERATIONS}")
    operations = []
    for each in measure_operations(config, seconds):
        on_line(tables.operation_line(each))
        operations.append(each)
    on_line(f"\ntraining on {scene.name}, for a step like those of a run")
    run = trained(scene, config)
    step = _profile_step(run, scene, most, seconds, on_line)
    frame = time_frame(run, seconds)
    on_line(f"\n{tables.frame_line(frame)}")
    return Profile(about, config, scene.name, most, operations, step, frame)


def _profile_step(
    run: Run, scene: Scene, most: Ceilings, seconds: float, on_line: Callable[[str], None]
) -> Step:
    steps = time_interleaved(run, scene, INTERLEAVED * seconds)
    whole = steps.whole
    on_line(f"{tables.step_line(whole)}\n\n{tables.PARTS}")
    launch = time_launch(seconds)
    done = []
    for part in parts(run.trainer, steps, launch, seconds):
        on_line(tables.part_line(part, most))
        done.append(part)
    host = time_host(run.trainer, whole.state, seconds) if current_device() != "cpu" else None
    for line in tables.sum_lines(done, whole, launch, host):
        on_line(line)
    return Step(whole, done, launch, host)
