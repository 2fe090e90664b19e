"""A run's configuration: a preset for the device, adapted to a scene; checks of limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import prod

from nerfmac.app.scenes import Scene
from nerfmac.app.scenes.sparse_points import near_plane
from nerfmac.backend import current_device, memory_bytes, working_dtype
from nerfmac.backend.memory import GIB
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.config import Config, override
from nerfmac.config.presets import preset as preset_config
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.views import Views
from nerfmac.refine.track_colors import DIFFERENT, gain_spread
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")

CONFIGURED = Method()
"""The default method: field, sampler and loss as the configuration says."""

LOWER = {
    "the model": "--grid.log2-entries, or a smaller --preset",
    "the images": "--max-images, or their size by --downscale",
    "a step": "--march.max-samples",
}
"""Flags to lower, by the part of the memory that they reduce."""

_FLOAT = 4  # bytes


def config_for_device(preset: str, seed: int, model: str = "hash") -> Config:
    """The configuration of a `preset` for the current device. Raises `InputError`."""
    return override(preset_config(preset, current_device(), memory_bytes(), model), seed=seed)


def config_for_scene(config: Config, scene: Scene, method: Method) -> Config:
    """`config` with the settings that depend on the `scene`; no image is decoded.

    Raises `InputError` for a scene without training views, and if the configuration, the method
    and the scene do not fit together.
    """
    check_types(config, method)
    cameras = scene.cameras("train")
    sharpness = Cameras.stack(cameras).pixels_per_unit()
    near = 0.0
    if config.model == "hash" and not config.march.near_training and scene.points is not None:
        near = near_plane(scene.points, cameras)
    adapted = config.for_scene(sharpness, has_alpha=scene.has_alpha, near_plane=near)
    method.parts(adapted, scene.bounds)  # raises if its parts do not fit together
    if adapted.march.near_training != config.march.near_training:
        log.info(
            "sparse points: nothing is nearer than %.2f to a camera; --march.near-training sets it",
            near,
        )
    return adapted


def exposures_for_images(config: Config, views: Views) -> Config:
    """`config` that says whether exposures are refined: if not given, where images differ.

    `views` are the training views; `nerfmac.refine.track_colors` says how they are compared.
    """
    if config.refine.exposures is not None:
        return config
    spread = gain_spread(views) if config.model == "hash" else None
    differ = spread is not None and float(spread.max()) > DIFFERENT
    if spread is not None:
        percent = ", ".join(f"{100.0 * value:.0f}" for value in spread)
        log.info(
            "tracks: red, green and blue of the images differ by %s %%; exposures are %srefined",
            percent,
            "" if differ else "not ",
        )
    return override(config, refine={"exposures": differ})


def check_types(config: Config | None, method: Method) -> None:
    """Raise `InputError` unless `config` is a `Config` or None, and `method` a `Method`."""
    if config is not None:
        expected = "a nerfmac.Config; a preset is named by preset='small'"
        checks.kind("config", config, Config, expected)
    checks.kind("method", method, Method, "a nerfmac.Method, such as nerfmac.Method(field=...)")


def check_limits(steps: int | None, seconds: float | None) -> None:
    """Raise `InputError` unless at most one limit is given, and that one is positive."""
    if steps is not None and seconds is not None:
        raise InputError("both steps and seconds are given; expected one of them")
    if steps is not None:
        checks.number("steps", steps, low=1, whole=True)
    if seconds is not None:
        checks.number("seconds", seconds, low=1e-3)


def needed_memory(config: Config, scene: Scene, method: Method) -> dict[str, int]:
    """Lower bounds, in bytes, of the memory of the model, the training images and a step.

    The model: parameters, average and both moments, before and after a step, and a gradient.
    A step: positions, features and colors of the kept samples, with gradients; positions and
    features of all marched samples.
    """
    parts = method.parts(config, scene.bounds)
    parameters, state = (sum(map(prod, x.shapes.values())) for x in (parts.field, parts.sampler))
    lenses = [frame.camera.lens for frame in scene.splits.get("train", ())]
    pixels = sum(lens.width * lens.height for lens in lenses)
    return {
        "the model": _FLOAT * (3 * parameters + 2 * parameters + parameters + 2 * state),
        "the images": pixels * (4 if scene.has_alpha else 3),
        "a step": _step_bytes(config),
    }


def check_memory(config: Config, scene: Scene, method: Method, limit: int) -> dict[str, int]:
    """`needed_memory`; raises `InputError` if its sum exceeds `limit` bytes."""
    needed = needed_memory(config, scene, method)
    total = sum(needed.values())
    if total > limit:
        parts = ", ".join(f"{part} {_in_units(size)}" for part, size in needed.items())
        raise InputError(
            f"training takes at least {_in_units(total)} ({parts}), and may take "
            f"{_in_units(limit)}; lower {what_to_lower(needed)}"
        )
    return needed


def what_to_lower(needed: Mapping[str, int]) -> str:
    """The flags that lower the largest part of `needed_memory`."""
    return LOWER[max(needed, key=lambda part: needed[part])]


def _in_units(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / 2**20:.1f} MiB"


def _step_bytes(config: Config) -> int:
    slots, half = config.march.max_samples, working_dtype().size
    if config.model == "vanilla":
        # The outputs of each hidden layer are kept for the gradient.
        return slots * _FLOAT * config.vanilla.width * config.vanilla.layers
    features = config.grid.levels * config.grid.features
    sample = 5 * _FLOAT  # position, distance, and width or ray
    kept = slots * (sample + 2 * half * features + 2 * 4 * _FLOAT)
    return kept + config.march.march_factor * slots * (sample + half * features)
