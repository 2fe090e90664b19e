"""A run's configuration: a preset for the current device, then fitted to a scene."""

from __future__ import annotations

import logging

from nerfmac.backend import current_device, memory_bytes
from nerfmac.common import checks
from nerfmac.config import Config, override
from nerfmac.config.presets import preset as preset_of
from nerfmac.geometry.cameras import Cameras
from nerfmac.scenes import Scene
from nerfmac.scenes.near_plane import near_plane
from nerfmac.training.method import Method
from nerfmac.training.trainer import Trainer

log = logging.getLogger("nerfmac")


def configured(preset: str, seed: int, model: str = "hash") -> Config:
    """The preset's configuration for the current device. Raises `InputError`."""
    return override(preset_of(preset, current_device(), memory_bytes(), model), seed=seed)


def check_given(config: Config | None, method: Method) -> None:
    """Raise `InputError` for a `config` or a `method` of another type."""
    if config is not None:
        expected = "a nerfmac.Config; a preset is named by preset='small'"
        checks.kind("config", config, Config, expected)
    checks.kind("method", method, Method, "a nerfmac.Method, such as nerfmac.Method(field=...)")


def fitted(config: Config, scene: Scene, method: Method) -> Config:
    """`config` with what depends on the `scene`; no picture is decoded for it.

    Raises `InputError` for a scene without training views, and where no trainer can be made of the
    configuration, the method and the scene.
    """
    check_given(config, method)
    cameras = scene.cameras("train")
    sharpness = Cameras.stack(cameras).pixels_per_unit()
    near = _near_plane(config, scene)
    ready = config.for_scene(sharpness, has_alpha=scene.has_alpha, near_plane=near)
    Trainer(ready, scene.extent, method=method, cameras=cameras)
    if ready.march.near_training != config.march.near_training:
        log.info(
            "sparse points: nothing is nearer than %.2f to a camera; --march.near-training sets it",
            near,
        )
    return ready


def _near_plane(config: Config, scene: Scene) -> float:
    """Where the scene begins, 0 if its points do not say or nobody asks."""
    if config.model != "hash" or config.march.near_training or scene.points is None:
        return 0.0
    return near_plane(scene.points, scene.cameras("train"))
