"""Runs with different values of every size in the page's shader, without symmetric values."""

from dataclasses import replace

import mlx.core as mx
import numpy as np

from nerfmac.app.run import Run
from nerfmac.config import Config, override
from tests.scene_factory import CONFIG

CASES = {
    "hashed, one cascade": (
        1.0,
        {"grid": {"levels": 8, "features": 2, "log2_entries": 10, "finest": 256}},
    ),
    "three cascades, deeper": (
        3.0,
        {
            "grid": {"levels": 4, "features": 4, "log2_entries": 9, "finest": 64},
            "networks": {"width": 16, "density_layers": 2, "color_layers": 3, "density_bias": 0},
            "march": {"cone": 1 / 64, "render_step_divisor": 1},
            "occupancy": {"resolution": 16},
        },
    ),
    "one feature a level": (
        1.7,
        {
            "grid": {"levels": 16, "features": 1, "log2_entries": 11, "finest": 200},
            "networks": {"width": 64, "density_layers": 1, "color_layers": 2},
        },
    ),
    "eight features a level": (
        1.0,
        {"grid": {"levels": 2, "features": 8, "log2_entries": 12, "finest": 24}},
    ),
}
"""For each case, the side of the scene cube and the differences from `CONFIG`."""


def random_run(scene, name: str) -> Run:
    """A run of the case `name` with parameters as large as trained ones, in patchy space."""
    extent, changes = CASES[name]
    config: Config = override(CONFIG, **changes)
    run = Run.begin(replace(scene, extent=extent), config)
    table, density, color = mx.random.split(mx.random.key(len(name)), 3)
    average = run.state.average
    average["table"] = mx.random.normal(average["table"].shape, key=table)
    for key, drawn in (("density", density), ("color", color)):
        average[key] = 0.5 * mx.random.normal(average[key].shape, key=drawn)
    words = np.random.default_rng(len(name)).integers(0, 2**32, run.state.sampling["bits"].shape)
    words[::3] = 0  # whole bricks are empty
    run.state.sampling["bits"] = mx.array(words.astype(np.uint32))
    return run
