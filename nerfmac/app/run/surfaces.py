"""Surfaces of a run compared with the sparse points that training did not use.

`nerfmac.rendering.surface_metrics` defines the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.app.run.run import Run
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.ground_plane import (
    TOLERANCE,
    GroundPlane,
    ground_plane,
    nearest_distance,
)
from nerfmac.geometry.rays import Rays, rays_through
from nerfmac.geometry.tracks import distances_of
from nerfmac.rendering.renderer import Renderer
from nerfmac.rendering.surface_metrics import depth_errors

MOST_RAYS = 2**13
"""Largest number of rays that are traced for a metric, spread evenly or at random over views."""

Array = npt.NDArray[np.float64]


def surface_quality(run: Run, *splits: str, progress: bool = True) -> dict[str, float]:
    """Compare the depth of a run with sparse points that training did not use.

    Args:
        run: The run. Its scene is read again if necessary.
        splits: Views to compare, such as "test" and "train".
        progress: Show a bar while images are read.

    Returns:
        JSON values by name, for the split test: `depth_error_median_test`, `depth_error_p90_test`,
        `depth_within_3_percent_test`, and `depth_points_test`, the number of observations, if the
        scene has tracks; `plane_within_3_percent_test` and `plane_within_5_percent_test`, the
        fractions of pixels on the ground plane of the sparse points with such a depth error, if
        there is one. Fractions are in [0, 1].

    Raises:
        InputError: If the scene lacks one of the splits or cannot be read.
    """
    scene = run.images()
    if scene.points is None:
        return {}
    renderer, plane = run.renderer(), _plane_of(run, scene.points)
    values: dict[str, float] = {}
    for split in splits:
        cameras = _cameras(run, split, progress=progress)
        if split in scene.held_out:
            values |= _at_points(run, renderer, cameras, split)
        if plane is not None:
            values |= _on_plane(renderer, cameras, plane, split, run.config.seed)
    return values


def _cameras(run: Run, split: str, *, progress: bool) -> Cameras:
    """The cameras of a split, refined if training refined its own."""
    if split == "train":
        return Cameras.stack(run.cameras)
    return run.views(split, progress=progress).cameras


def _at_points(run: Run, renderer: Renderer, cameras: Cameras, split: str) -> dict[str, float]:
    """Depth errors at the observations of the points that training did not use."""
    tracks = run.images().held_out[split]
    distance = distances_of(tracks, np.array(cameras.poses[:, :, 3]))
    is_inside = np.asarray(run.scene.bounds.holds(tracks.points))[tracks.point]
    chosen = np.flatnonzero(is_inside & (distance > 0))
    chosen = chosen[:: max(-(-len(chosen) // MOST_RAYS), 1)]
    pixel = mx.array(tracks.pixel[chosen], mx.float32)
    rays = rays_through(cameras, mx.array(tracks.view[chosen], mx.int32), pixel)
    errors = depth_errors(depth_along(renderer, rays), distance[chosen])
    if errors is None:
        return {}
    return {
        f"depth_error_median_{split}": errors.median,
        f"depth_error_p90_{split}": errors.p90,
        f"depth_within_3_percent_{split}": errors.within_3_percent,
        f"depth_points_{split}": errors.number,
    }


def _plane_of(run: Run, points: Array) -> GroundPlane | None:
    """The ground plane of the sparse points in the scene's cube."""
    points = points[np.asarray(run.scene.bounds.holds(points))]
    eyes = np.stack([camera.pose[:, 3] for camera in run.cameras])
    tolerance = TOLERANCE * nearest_distance(points, eyes)
    return ground_plane(points, tolerance, run.scene.up)


def _on_plane(
    renderer: Renderer, cameras: Cameras, plane: GroundPlane, split: str, seed: int
) -> dict[str, float]:
    """Depth errors at random pixels whose rays meet the plane inside its hull."""
    random = np.random.default_rng(seed)
    view = random.integers(0, len(cameras), MOST_RAYS, np.int32)
    pixel = random.random((MOST_RAYS, 2)) * np.array(cameras.sizes)[view]
    rays = rays_through(cameras, mx.array(view), mx.array(pixel, mx.float32))
    distance = np.array(plane.distance(rays), np.float64)
    is_on = np.flatnonzero(np.isfinite(distance))
    if not len(is_on):
        return {}
    some = Rays(*(values[mx.array(is_on)] for values in rays))
    error = np.abs(depth_along(renderer, some) / distance[is_on] - 1.0)
    return {
        f"plane_within_{percent}_percent_{split}": float((error <= percent / 100).mean())
        for percent in (3, 5)
    }


def depth_along(renderer: Renderer, rays: Rays) -> Array:
    """Return rendered distances (rays,) along rays; 0 where nothing is seen."""
    _, opacity, depth = (np.array(values, np.float64) for values in renderer.see(rays))
    return np.asarray(depth / np.maximum(opacity, 1e-6))


def surface_summary(values: Mapping[str, float], split: str) -> list[str]:
    """Describe the values of `surface_quality`, a line each; no line without values."""
    lines = []
    if f"depth_points_{split}" in values:
        median, p90, within = (
            100.0 * values[f"depth_{name}_{split}"]
            for name in ("error_median", "error_p90", "within_3_percent")
        )
        lines.append(
            f"depth at {values[f'depth_points_{split}']} observations of sparse points that "
            f"training did not use, {split} views: error {median:.2f} % (median), {p90:.1f} % "
            f"(90th percentile); {within:.0f} % within 3 %"
        )
    if f"plane_within_5_percent_{split}" in values:
        near, far = (100.0 * values[f"plane_within_{most}_percent_{split}"] for most in (3, 5))
        lines.append(
            f"ground plane of the sparse points, {split} views: depth of {near:.0f} % of its "
            f"pixels within 3 %, of {far:.0f} % within 5 %"
        )
    return lines
