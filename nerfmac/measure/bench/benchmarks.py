"""How long every operation takes, by its kernels and by its reference, and how long a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import machine
from nerfmac.checks import InputError
from nerfmac.config import Config
from nerfmac.measure.bench import tables
from nerfmac.measure.bench.frame import Frame, time_frame
from nerfmac.measure.bench.operations import Measured, measure_operations
from nerfmac.measure.bench.progress import no_line, trained
from nerfmac.measure.ceilings import Ceilings, measure_ceilings
from nerfmac.run import Run
from nerfmac.scenes import Scene

STEPS = 1024
"""Steps before the picture is timed: by then the occupancy grid is sparse."""


@dataclass(frozen=True)
class Benchmark:
    """What was measured, and on what."""

    machine: dict[str, str]
    config: Config
    scene: str
    ceilings: Ceilings
    operations: list[Measured]
    frame: Frame

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, times in milliseconds."""
        return {
            **self.machine,
            "preset": self.config.preset,
            "scene": self.scene,
            "ceilings": self.ceilings._asdict(),
            "operations": {each.name: each.to_json() for each in self.operations},
            "frame": self.frame.to_json(),
        }


def benchmark(
    scene: Scene,
    config: Config,
    *,
    seconds: float = 1.0,
    on_line: Callable[[str], None] = no_line,
) -> Benchmark:
    """Time every operation and a picture, on the current device.

    Args:
        scene: what is trained on, for the picture.
        config: whose sizes the operations have, and what is trained.
        seconds: for each figure, about.
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
    on_line(f"\ntraining on {scene.name}, for a picture")
    frame = time_frame(trained(Run.begin(scene, config), STEPS), seconds)
    on_line(tables.frame_line(frame))
    return Benchmark(about, config, scene.name, most, operations, frame)
