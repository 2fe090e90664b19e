"""Configuration of a run: adaptation of a preset to the device and the scene, and checks of limits
and memory."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device, memory_bytes, working_dtype
from nerfmac.backend.memory import GIB, array_bytes, memory_limit, training_bytes
from nerfmac.common import InputError, checks
from nerfmac.config import Config
from nerfmac.config.presets import preset as preset_config
from nerfmac.geometry import Bounds
from nerfmac.sampling.occupancy import MAX_WARMUP_POINTS
from nerfmac.training.goal import Goal
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.resolve import SceneFacts

CONFIGURED = Method()  # The field, sampler, and loss that the configuration specifies.
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
    return goal if goal.has_end else replace(goal, steps=config.train.steps)


def facts_of(scene: Scene) -> SceneFacts:
    """Return the properties of a scene from which `resolve` chooses automatic settings. No images
    are decoded. `InputError` is raised if the scene has no training views."""
    return SceneFacts(scene.bounds, scene.has_alpha, scene.cameras("train"), scene.points)


def check_method(method: Method) -> None:
    """Raise `InputError` unless `method` is a `Method`."""
    checks.kind("method", method, Method, "a nerfmac.Method, such as nerfmac.Method(field=...)")


def needed_memory(model: Model, scene: Scene) -> dict[str, int]:
    """Estimate the memory in bytes for the keys of `REDUCING_OPTIONS`.

    The model consists of several training states, with parameters, their average, their moments,
    and the state of the sampler, and of the gradient and the new values during a step. A step
    consists of positions, features, and colors of the samples in the sample budget with their
    gradients, of positions and features of all marched samples, and of the points in an update of
    the occupancy grid.
    """
    config = model.config
    parameters = sum(prod(spec.shape) for spec in model.parameter_specs.values())
    state = sum(map(prod, model.sampler.shapes.values()))
    lenses = [frame.camera.lens for frame in scene.splits.get("train", ())]
    pixels = sum(lens.width * lens.height for lens in lenses)
    return {
        "the model": _FLOAT * (_STATES * (3 * parameters + state) + 3 * parameters),
        "the images": pixels * (4 if scene.has_alpha else 3),
        "a step": _QUEUED * _step_bytes(config) + _update_bytes(config, scene.bounds),
    }


def check_memory(model: Model, scene: Scene) -> None:
    """Raise `InputError` if the sum of `needed_memory` exceeds the memory for training, or if the
    images exceed the maximum size of an array."""
    needed = needed_memory(model, scene)
    total, images = sum(needed.values()), needed["the images"]
    usable, at_most = training_bytes(memory_limit()), array_bytes() or images

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
