"""Configuration of a run: adaptation of a preset to the device and the scene, and checks of limits
and memory."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device, memory_bytes, working_dtype
from nerfmac.backend.memory import GIB, array_bytes, training_bytes
from nerfmac.common import InputError, checks
from nerfmac.config import Config, override
from nerfmac.config.presets import preset as preset_config
from nerfmac.geometry import Bounds, Cameras, Views
from nerfmac.geometry.near_plane import near_plane
from nerfmac.refine.track_colors import DIFFERENT, gain_spread
from nerfmac.sampling.occupancy import MAX_WARMUP_POINTS
from nerfmac.training.goal import Goal
from nerfmac.training.method import Method, Parts

log = logging.getLogger("nerfmac")

CONFIGURED = Method()  # The field, sampler, and loss that the configuration specifies.
DEPTH_WEIGHT, GROUND_WEIGHT = 0.05, 0.05  # Defaults for scenes with a ground plane.
OCCLUSION_WEIGHT = 0.01  # Default for scenes without a ground plane.
SENSOR_WEIGHT = 0.03  # Default for scenes with depth images.
REDUCING_OPTIONS = {
    "the model": "--grid.log2-entries, or use a smaller --preset",
    "the images": "--max-images, or reduce their size with --downscale",
    "a step": "--march.max-samples",
}
"""Command-line options that reduce the memory use of each part in the result of `needed_memory`."""
MAX_DOWNSCALE = 8  # Maximum factor that `check_memory` suggests for --downscale.
_FLOAT = 4  # bytes of a float32
_STATES = 4
"""Number of training states in memory: of the last report, of the report that later launches have
not confirmed yet, of the next report, and of the newest step."""
_QUEUED = 2  # number of steps for which memory is allocated at the same time


def config_of(given: Config | str) -> Config:
    """Return a configuration, or that of a preset. The preset `auto` fits the current device."""
    if isinstance(given, str):
        return preset_config(given, current_device(), memory_bytes())
    checks.kind("config", given, Config, "a nerfmac.Config, or the name of a preset")
    return given


def check_goal(goal: Goal) -> None:
    """Raise `InputError` if a goal has both limits or a limit is not positive."""
    checks.kind("goal", goal, Goal, "a nerfmac.Goal, such as nerfmac.Goal(seconds=60)")
    if goal.steps is not None and goal.seconds is not None:
        raise InputError("steps and seconds cannot be used together; remove one of them")
    checks.optional_number("steps", goal.steps, low=1, whole=True)
    checks.optional_number("seconds", goal.seconds, low=1e-3)


def limited(goal: Goal, config: Config) -> Goal:
    """Return a goal with a limit, by default the number of steps in the configuration."""
    has_limit = goal.steps is not None or goal.seconds is not None
    return goal if has_limit else replace(goal, steps=config.train.steps)


def config_for_scene(config: Config, scene: Scene) -> Config:
    """Return a copy of a configuration with values for the settings that depend on the scene. No
    images are decoded. `InputError` is raised if the scene has no training views."""
    cameras = scene.cameras("train")
    sharpness = Cameras.stack(cameras).pixels_per_unit()
    near: float | None = None
    if config.model == "hash" and config.march.near is None and scene.points is not None:
        near = near_plane(scene.points, cameras)
    adapted = config.for_scene(sharpness, has_alpha=scene.has_alpha, near_plane=near)
    if adapted.march.near != config.march.near:
        log.info(
            "no sparse point is closer than %.2f to a camera, so nerfmac ignores closer samples; "
            "override with --march.near",
            near,
        )
    return adapted


def exposures_for_images(config: Config, views: Views) -> Config:
    """Decide whether exposures are refined, unless the configuration already specifies it.
    Exposures are refined if the same sparse points have different colors in different images."""
    if config.refine.exposures is not None:
        return config
    spread = gain_spread(views) if config.model == "hash" else None
    differ = spread is not None and float(spread.max()) > DIFFERENT
    if spread is not None:
        percent = ", ".join(f"{100.0 * value:.0f}" for value in spread)
        log.info(
            "colors of sparse points differ between images by %s %% (R, G, B); exposures are "
            "%srefined",
            percent,
            "" if differ else "not ",
        )
    return override(config, refine={"exposures": differ})


def surface_losses_for_views(config: Config, views: Views) -> Config:
    """Set the weights of the occlusion, depth, ground, and sensor losses, unless the configuration
    specifies them.

    By default, a hash model has no occlusion loss if the views have a ground plane. A textureless
    floor has the correct color at any depth, so the occlusion loss would move it away. The other
    weights are 0 unless the run has a hash model and the views have tracks and a ground plane. If
    one of them is set to 0, the other is by default also 0. For example, the ground loss is not
    enabled without the depth loss, because it would also pull objects to the plane. The sensor loss
    is enabled if the views have depth maps, and their scale is refined unless they are metric.
    """
    train = config.train
    occlusion, depth, ground = train.occlusion, train.depth, train.ground
    if occlusion is None:
        occlusion = 0.0 if config.model == "hash" and views.ground is not None else OCCLUSION_WEIGHT
    if depth is None:
        depth = DEPTH_WEIGHT if ground != 0.0 and _has_ground(config, views) else 0.0
    if ground is None:
        ground = GROUND_WEIGHT if depth and _has_ground(config, views) else 0.0
    if depth and ground and None in (train.depth, train.ground):
        log.info(
            "the sparse points have a ground plane, so the depth and ground losses are enabled; "
            "disable with --train.depth 0"
        )
    sensor = train.sensor
    if sensor is None:
        sensor = SENSOR_WEIGHT if config.model == "hash" and views.depth is not None else 0.0
    weights = {"occlusion": occlusion, "depth": depth, "ground": ground, "sensor": sensor}
    is_refined = config.refine.depth_scale
    if is_refined is None:
        is_refined = bool(sensor) and views.depth is not None and not views.depth.is_metric
    return override(config, train=weights, refine={"depth_scale": is_refined})


def _has_ground(config: Config, views: Views) -> bool:
    return config.model == "hash" and views.tracks is not None and views.ground is not None


def check_method(method: Method) -> None:
    """Raise `InputError` unless `method` is a `Method`."""
    checks.kind("method", method, Method, "a nerfmac.Method, such as nerfmac.Method(field=...)")


def needed_memory(config: Config, scene: Scene, parts: Parts) -> dict[str, int]:
    """Estimate the memory in bytes for the keys of `REDUCING_OPTIONS`.

    The model consists of several training states, with parameters, their average, their moments,
    and the state of the sampler, and of the gradient and the new values during a step. A step
    consists of positions, features, and colors of the samples in the sample budget with their
    gradients, of positions and features of all marched samples, and of the points in an update of
    the occupancy grid.
    """
    parameters = sum(prod(spec.shape) for spec in parts.parameter_specs.values())
    state = sum(map(prod, parts.sampler.shapes.values()))
    lenses = [frame.camera.lens for frame in scene.splits.get("train", ())]
    pixels = sum(lens.width * lens.height for lens in lenses)
    return {
        "the model": _FLOAT * (_STATES * (3 * parameters + state) + 3 * parameters),
        "the images": pixels * (4 if scene.has_alpha else 3),
        "a step": _QUEUED * _step_bytes(config) + _update_bytes(config, scene.bounds),
    }


def check_memory(config: Config, scene: Scene, parts: Parts, limit: int) -> None:
    """Raise `InputError` if the sum of `needed_memory` exceeds the memory for training, given the
    memory limit in bytes, or if the images exceed the maximum size of an array."""
    needed = needed_memory(config, scene, parts)
    usable, total, images = training_bytes(limit), sum(needed.values()), needed["the images"]
    at_most = array_bytes() or images

    def fits(of_images: int) -> bool:
        return total - images + of_images <= usable and of_images <= at_most

    if fits(images):
        return
    scales = [scale for scale in range(2, MAX_DOWNSCALE + 1) if fits(images // scale**2)]
    remedy = what_to_lower(needed)
    if images == max(needed.values()) and scales:
        remedy = f"the images with --downscale {scene.options.downscale * scales[0]}"
    if total <= usable:
        raise InputError(
            f"the images require {_in_units(images)}, but an array on this GPU has at most "
            f"{_in_units(at_most)}; reduce {remedy}"
        )
    sizes = ", ".join(f"{part} {_in_units(size)}" for part, size in needed.items())
    raise InputError(
        f"training requires at least {_in_units(total)} ({sizes}), but only "
        f"{_in_units(usable)} are available; reduce {remedy}"
    )


def what_to_lower(needed: Mapping[str, int]) -> str:
    """Return the command-line options that reduce the largest entry of `needed`."""
    return REDUCING_OPTIONS[max(needed, key=lambda part: needed[part])]


def _in_units(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / 2**20:.1f} MiB"


def _step_bytes(config: Config) -> int:
    slots, half = config.march.max_samples, working_dtype().size
    if config.model == "vanilla":
        # The outputs of each hidden layer are stored for the gradient.
        return slots * _FLOAT * config.vanilla.width * config.vanilla.layers
    features = config.grid.levels * config.grid.features
    sample = 5 * _FLOAT  # position, distance, and width or ray
    kept = slots * (sample + 2 * half * features + 2 * 4 * _FLOAT)
    return kept + config.march.march_factor * slots * (sample + half * features)


def _update_bytes(config: Config, bounds: Bounds) -> int:
    """Return the bytes of positions, features, densities, and cells of the points in an occupancy
    update, and of four values of each cell."""
    if config.model == "vanilla":
        return 0
    cells = bounds.cascades * config.occupancy.resolution**3
    points = min(MAX_WARMUP_POINTS, int(config.occupancy.warmup_fraction * cells))
    features = config.grid.levels * config.grid.features
    return points * (5 * _FLOAT + working_dtype().size * features) + 4 * _FLOAT * cells
