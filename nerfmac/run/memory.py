"""What training takes of a device's memory, at least, and whether that is there."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from nerfmac.backend import working_dtype
from nerfmac.backend.memory import GIB
from nerfmac.common.checks import InputError
from nerfmac.config import Config
from nerfmac.scenes import Scene
from nerfmac.training.method import Method
from nerfmac.training.trainer import Trainer

LOWER = {
    "the model": "--grid.log2-entries, or a smaller --preset",
    "the pictures": "--max-images, or their size by --downscale",
    "a step": "--march.max-samples",
}
"""What to lower where a part takes most."""

_FLOAT = 4


def needed_memory(config: Config, scene: Scene, method: Method) -> dict[str, int]:
    """The bytes, at least, of the model, of the training pictures, and of a step's arrays.

    The model: its parameters, their average and both moments, each as they are and as a step leaves
    them, and a gradient. A step: what its slots hold, positions, features and colours, with their
    gradients; and positions and features of the samples that are tried for light.
    """
    trainer = Trainer(config, scene.extent, method=method)
    parameters = sum(map(prod, trainer.field.shapes.values()))
    state = sum(map(prod, trainer.sampler.shapes.values()))
    lenses = [frame.camera.lens for frame in scene.splits.get("train", ())]
    pixels = sum(lens.width * lens.height for lens in lenses)
    return {
        "the model": _FLOAT * (3 * parameters + 2 * parameters + parameters + 2 * state),
        "the pictures": pixels * (4 if scene.has_alpha else 3),
        "a step": _step_bytes(config),
    }


def check_memory(config: Config, scene: Scene, method: Method, limit: int) -> dict[str, int]:
    """`needed_memory`; raises `InputError` if it is more than `limit` bytes in all."""
    needed = needed_memory(config, scene, method)
    total = sum(needed.values())
    if total > limit:
        parts = ", ".join(f"{part} {_shown(size)}" for part, size in needed.items())
        raise InputError(
            f"training takes at least {_shown(total)} ({parts}), and may take {_shown(limit)}; "
            f"lower {what_to_lower(needed)}"
        )
    return needed


def what_to_lower(needed: Mapping[str, int]) -> str:
    """The flags that lower the part which takes most."""
    return LOWER[max(needed, key=lambda part: needed[part])]


def _shown(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / 2**20:.1f} MiB"


def _step_bytes(config: Config) -> int:
    slots, half = config.march.max_samples, working_dtype().size
    if config.model == "vanilla":
        # Each hidden layer's outputs are kept for the gradient.
        vanilla = config.vanilla
        return slots * _FLOAT * vanilla.width * vanilla.layers
    features = config.grid.levels * config.grid.features
    place = 5 * _FLOAT  # position, distance and width of a sample, or its ray
    kept = slots * (place + 2 * half * features + 2 * 4 * _FLOAT)
    return kept + config.march.march_factor * slots * (place + half * features)
