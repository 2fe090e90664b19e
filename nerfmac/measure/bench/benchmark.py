"""The time of every operation, by its kernels and by its reference, and the time of a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nerfmac.backend import current_device
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import machine
from nerfmac.common.checks import InputError
from nerfmac.config import Config
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.measure.bench.operations import measure_operations
from nerfmac.measure.ceilings import measure_ceilings
from nerfmac.measure.step import trained
from nerfmac.measure.timing import Timing, measure
from nerfmac.run import Run
from nerfmac.scenes import Scene

STEPS = 1024
"""Training steps before the picture is timed: by then the occupancy grid is sparse."""
PICTURE = {"cpu": 200}
"""Pixels along a side of the picture, by device; 800 elsewhere."""


def benchmark(
    scene: Scene,
    config: Config,
    *,
    seconds: float = 1.0,
    on_line: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Time every operation and a picture on the current device.

    Args:
        scene: trained on for the picture.
        config: sizes of the operations, and of the model that is trained.
        seconds: time for each figure, about.
        on_line: called with each line of a table for people as soon as it is known.

    Returns:
        The figures as JSON values, times in milliseconds.

    Raises:
        InputError: no kernels run here, or a picture of the scene is broken.
    """
    if why := why_reference():
        raise InputError(f"there are no kernels to time: {why}")
    scene.views("train")  # a broken picture fails before anything is measured
    about = machine()
    on_line(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    most = measure_ceilings(seconds)
    heading = f"{'operation':34}{'kernel':>10}{'':>17}{'reference':>10}{'ratio':>9}"
    on_line(f"{most}\n\n{heading}")
    operations = {}
    for each in measure_operations(config, seconds):
        on_line(str(each))
        operations[each.name] = each.to_json()
    on_line(f"\ntraining on {scene.name}, for a picture")
    side, timing = time_picture(trained(Run.begin(scene, config), STEPS), seconds)
    rays = side**2 / timing.median * 1e3
    on_line(f"a picture of {side}x{side}: {timing}, {rays:.3g} rays/s")
    return {
        **about,
        "preset": config.preset,
        "scene": scene.name,
        "ceilings": most._asdict(),
        "operations": operations,
        "frame": {"side": side, "ms": timing._asdict(), "rays_per_second": rays},
    }


def time_picture(run: Run, seconds: float) -> tuple[int, Timing]:
    """The side in pixels and the time of a square picture of the run's field.

    It is seen from the first photograph's camera, at the photograph's horizontal angle.
    """
    side = PICTURE.get(current_device(), 800)
    camera = run.scene.cameras[0]
    angle = 2.0 * math.atan(0.5 * camera.lens.width / camera.lens.fl_x)
    view = Camera(Lens.from_fov(angle, side, side), camera.pose)
    renderer = run.renderer()
    return side, measure(lambda: renderer.pixels(view, (1.0, 1.0, 1.0)), seconds=seconds)
