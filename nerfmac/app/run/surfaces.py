"""Comparison of reconstructed surfaces with sparse points that were excluded from training.

The metrics are defined in `nerfmac.rendering.surface_metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.app.run.run import Run
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.ground_plane import GroundPlane, scene_ground_plane
from nerfmac.geometry.rays import Rays, rays_through
from nerfmac.geometry.tracks import distances_of
from nerfmac.rendering.renderer import Renderer
from nerfmac.rendering.surface_metrics import depth_errors

MAX_RAYS = 2**13  # Maximum number of rays for each metric.

Array = npt.NDArray[np.float64]


def surface_quality(run: Run, *splits: str, progress: bool = True) -> dict[str, float]:
    """Compare rendered depth with sparse points that were excluded from training.

    For the split "test" of a scene with tracks, the names of the values are
    `depth_error_median_test`, `depth_error_p90_test`, `depth_within_3_percent_test`, and
    `depth_points_test`, the number of observations. With a ground plane,
    `plane_within_3_percent_test` and `plane_within_5_percent_test` are fractions of the pixels on
    the plane. Errors are relative to the true distance.
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
    if split == "train":
        return Cameras.stack(run.cameras)
    return run.views(split, progress=progress).cameras


def _at_points(run: Run, renderer: Renderer, cameras: Cameras, split: str) -> dict[str, float]:
    """Compute depth errors at the observations of points that were excluded from training."""
    tracks = run.images().held_out[split]
    distance = distances_of(tracks, np.array(cameras.poses[:, :, 3]))
    is_inside = np.asarray(run.scene.bounds.holds(tracks.points))[tracks.point]
    chosen = np.flatnonzero(is_inside & (distance > 0))
    chosen = chosen[:: max(-(-len(chosen) // MAX_RAYS), 1)]
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
    eyes = np.stack([camera.pose[:, 3] for camera in run.cameras])
    return scene_ground_plane(points, run.scene.bounds, eyes, run.scene.up)


def _on_plane(
    renderer: Renderer, cameras: Cameras, plane: GroundPlane, split: str, seed: int
) -> dict[str, float]:
    """Compute depth errors at random pixels with rays that intersect the plane inside its hull."""
    random = np.random.default_rng(seed)
    view = random.integers(0, len(cameras), MAX_RAYS, np.int32)
    pixel = random.random((MAX_RAYS, 2)) * np.array(cameras.sizes)[view]
    rays = rays_through(cameras, mx.array(view), mx.array(pixel, mx.float32))
    distance = np.array(plane.distance(rays), np.float64)
    is_on = np.flatnonzero(np.isfinite(distance))
    if not len(is_on):
        return {}
    hitting = Rays(*(values[mx.array(is_on)] for values in rays))
    error = np.abs(depth_along(renderer, hitting) / distance[is_on] - 1.0)
    return {
        f"plane_within_{percent}_percent_{split}": float((error <= percent / 100).mean())
        for percent in (3, 5)
    }


def depth_along(renderer: Renderer, rays: Rays) -> Array:
    """Return the distances (rays,) to surfaces in scene units, or 0 for rays that hit none."""
    _, opacity, depth = (np.array(values, np.float64) for values in renderer.see(rays))
    return np.asarray(depth / np.maximum(opacity, 1e-6))


def surface_summary(values: Mapping[str, float], split: str) -> list[str]:
    """Return a line for each kind of metric of a split in the result of `surface_quality`."""
    lines = []
    if f"depth_points_{split}" in values:
        median, p90, within = (
            100.0 * values[f"depth_{name}_{split}"]
            for name in ("error_median", "error_p90", "within_3_percent")
        )
        lines.append(
            f"depth error at {values[f'depth_points_{split}']} observations of sparse points that "
            f"were excluded from training, {split} views: median {median:.2f} %, 90th percentile "
            f"{p90:.1f} %; {within:.0f} % of the observations have an error of at most 3 %"
        )
    if f"plane_within_5_percent_{split}" in values:
        near, far = (
            100.0 * values[f"plane_within_{percent}_percent_{split}"] for percent in (3, 5)
        )
        lines.append(
            f"ground plane of the sparse points, {split} views: {near:.0f} % of the pixels have a "
            f"depth error of at most 3 %, {far:.0f} % of at most 5 %"
        )
    return lines
