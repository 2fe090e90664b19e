"""Automatic settings: the values of settings that are None, and of settings that a scene disables.

`resolve` chooses all of them. No other function reads None from a setting. The resolved
configuration is used, printed, and saved, and custom fields and samplers are created from it.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from nerfmac.common import Float64Array
from nerfmac.config import AUTO, NEAR, PRESETS, Config, override
from nerfmac.geometry import Bounds, Camera, Cameras, Views, near_plane
from nerfmac.refine.track_colors import DIFFERENT, gain_spread

log = logging.getLogger("nerfmac")

FINEST = 1024  # Cells per scene unit at the finest level if no camera is known.
LARGEST_FINEST = 4096  # Maximum number of cells per scene unit that is chosen automatically.
# Cells of the finest level per pixel. A finer level would also learn details that only one view
# contains. For the Chair scene at full size, 1024 cells for 835 pixels give better results than 512
# cells. For the Lego scene at half size, 512 cells for 417 pixels give better results than 1024 or
# 2048 cells.
CELLS_PER_PIXEL = 1.25
DEPTH_WEIGHT, GROUND_WEIGHT = 0.05, 0.05  # Defaults for scenes with a ground plane.
OCCLUSION_WEIGHT = 0.01  # Default for scenes without a ground plane.
SMALL_OCCLUSION_WEIGHT = 0.05
"""Default of the preset `small` for these scenes. With `OCCLUSION_WEIGHT`, its small tables do not
remove the haze of every seed."""
SENSOR_WEIGHT = 0.03  # Default for scenes with depth images.
PACES = {400: (2**14, 16), 1600: (2**15, 17)}
"""Samples per step, and log2 of the table entries of a level, in runs with time for fewer steps of
the preset `base` than the key. In short runs, many small steps with a small table learn more from
the same time. Measured with nine scenes on an H200, with the step times of other GPUs; see
docs/benchmark-log.md."""
PACED_AVERAGE = 0.98  # `optimizer.average` of these runs, because their steps are noisier.
OPEN_PACE = 1600
"""Key of `PACES` for the first steps of a run without a limit."""
GROW_AT = 1500
"""Number of these steps, for which a GPU needs the time of about 400 steps of the preset `base`."""
PROBE_STEPS = 1000.0
"""Number of steps of the preset `base` for which settings are chosen before the speed is known."""
BASE_PER_PROBE = 3.8
"""Time of a step of the preset `base`, divided by the time of a step with these settings. If the
host limits the rate of steps, the quotient is smaller, and the speed is underestimated."""


class SceneFacts(NamedTuple):
    """Properties of a scene that are known without its images."""

    bounds: Bounds  # the scene cube
    has_alpha: bool = True  # whether the images have an alpha channel
    cameras: Sequence[Camera] = ()  # cameras of the training views
    points: Float64Array | None = None  # (n, 3) sparse points in scene coordinates


def for_pace(config: Config, steps: float | None = math.inf) -> Config:
    """Choose the settings of the preset `auto` for the speed of the device.

    Args:
        config: Configuration of a run.
        steps: Number of steps of the preset `base` for which the run has time, or None if the run
            has no limit.

    Returns:
        Configuration with the preset `base` instead of `auto`. If `steps` is small, a step has
        fewer samples, and the table has fewer entries. Without a limit, this applies to the first
        `train.grow_at` steps. Settings that differ from the preset do not change, and if one of
        `sizes` differs, a run without a limit has the preset `base` from the start.
    """
    if config.preset != AUTO:
        return config
    base, config = PRESETS["base"], replace(config, preset="base")
    limit = next((limit for limit in PACES if steps is not None and steps < limit), None)
    usual, given = sizes(base), sizes(config)
    is_open = steps is None and config.encoding == "hash" and given == usual
    if limit is None and not is_open:
        return config
    samples, entries = PACES[limit or OPEN_PACE]
    chosen: dict[str, dict[str, Any]] = {
        "march": {"max_samples": samples},
        "grid": {"log2_entries": entries},
        "optimizer": {"average": PACED_AVERAGE},
    }
    unchanged = {name: chosen[name] for name in chosen if given[name] == usual[name]}
    grow_at = config.train.grow_at or (GROW_AT if is_open else 0)
    return override(config, **unchanged, train={"grow_at": grow_at})


def sizes(config: Config) -> dict[str, Any]:
    """Return the settings that depend on the speed of the device, as changes for `override`."""
    return {
        "march": {"max_samples": config.march.max_samples},
        "grid": {"log2_entries": config.grid.log2_entries},
        "optimizer": {"average": config.optimizer.average},
    }


def resolve(config: Config, scene: SceneFacts, views: Views | None = None) -> Config:
    """Choose the values of automatic settings for a scene.

    Args:
        config: Configuration of a run, for example a preset.
        scene: Properties of the scene.
        views: Training views, or None if the images have not been decoded. Without views, the
            settings that depend on them remain automatic.

    Returns:
        Configuration in which no setting is automatic. Other values do not change, except values
        that have no effect in the scene.
    """
    grid, march, train, networks = config.grid, config.march, config.train, config.networks
    if grid.finest is None and scene.cameras:
        finest = CELLS_PER_PIXEL * Cameras.stack(scene.cameras).pixels_per_unit()
        grid = replace(grid, finest=round(min(max(finest, 4 * grid.coarsest), LARGEST_FINEST)))
    if march.near is None:
        march = replace(march, near=_near(config, scene))
    if not scene.has_alpha:
        networks = replace(networks, density_bias=0)
    if not scene.bounds.has_surroundings:
        # The cameras are outside the scene cube, where there is no density, so that there is no
        # haze in front of them. Steps of equal length and samples without noise are more accurate.
        march = replace(march, cone=0.0, thin_below=0.0)
        train = replace(train, gradient_scaling=0.0, occlusion=0.0)
    config = replace(config, grid=grid, march=march, train=train, networks=networks)
    return config if views is None else _for_views(config, views)


def settled(config: Config, bounds: Bounds) -> Config:
    """Return the configuration for a scene of which only the bounds are known. Settings that are
    still automatic are disabled or have the value for an unknown scene."""
    config = resolve(for_pace(config), SceneFacts(bounds))
    grid = {"finest": FINEST} if config.grid.finest is None else {}
    weights, flags = ("occlusion", "depth", "ground", "sensor"), ("exposures", "depth_scale")
    train = {name: 0.0 for name in weights if getattr(config.train, name) is None}
    refine = {name: False for name in flags if getattr(config.refine, name) is None}
    return override(config, train=train, refine=refine, grid=grid)


def _near(config: Config, scene: SceneFacts) -> float:
    found = None
    if config.model == "hash" and scene.points is not None:
        found = near_plane(scene.points, scene.cameras)
    if found is None or found <= NEAR:
        return NEAR
    log.info(
        "no sparse point is closer than %.2f to a camera, so nerfmac ignores closer samples; "
        "override with --march.near",
        found,
    )
    return found


def _for_views(config: Config, views: Views) -> Config:
    """Decide which losses of known distances are enabled, and whether exposures and the scale of
    measured depths are refined.

    A textureless floor has the correct color at any depth, so the occlusion loss would move it
    away. It is disabled if the views have a ground plane. The depth and ground losses require
    tracks and a ground plane. If one of them is set to 0, the other is by default also 0: the
    ground loss without the depth loss would also pull objects to the plane.
    """
    train, refine = config.train, config.refine
    is_hash = config.model == "hash"
    is_level = is_hash and views.ground is not None
    has_ground = is_level and views.tracks is not None
    is_small = is_hash and config.preset == "small"
    occlusion = SMALL_OCCLUSION_WEIGHT if is_small else OCCLUSION_WEIGHT
    weights = {
        "occlusion": 0.0 if is_level else occlusion,
        "depth": DEPTH_WEIGHT if has_ground and train.ground != 0.0 else 0.0,
        "ground": GROUND_WEIGHT if has_ground and train.depth != 0.0 else 0.0,
        "sensor": SENSOR_WEIGHT if is_hash and views.depth is not None else 0.0,
    }
    chosen = {name: value for name, value in weights.items() if getattr(train, name) is None}
    if has_ground and (chosen.get("depth") or chosen.get("ground")):
        log.info(
            "the sparse points have a ground plane, so the depth and ground losses are enabled; "
            "disable with --train.depth 0"
        )
    config = override(config, train=chosen)
    if refine.depth_scale is None:
        is_unknown = views.depth is not None and not views.depth.is_metric
        refine = replace(refine, depth_scale=bool(config.train.sensor) and is_unknown)
    if refine.exposures is None:
        refine = replace(refine, exposures=is_hash and _has_different_exposures(views))
    return replace(config, refine=refine)


def _has_different_exposures(views: Views) -> bool:
    """Return whether the same sparse points have different colors in different images."""
    spread = gain_spread(views)
    if spread is None:
        return False
    differ = float(spread.max()) > DIFFERENT
    log.info(
        "colors of sparse points differ between images by %s %% (R, G, B); exposures are %srefined",
        ", ".join(f"{100.0 * value:.0f}" for value in spread),
        "" if differ else "not ",
    )
    return differ
