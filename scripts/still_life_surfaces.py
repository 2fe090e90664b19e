"""Compare the depth and the normals of runs on the built-in scene with the true surfaces.

    python scripts/still_life_surfaces.py RUN ...

The renderer of the scene (`scripts/make_scene.py`) provides the true values. Depth errors are
relative to the true distance. Angles between normals are in degrees. All test views are compared,
at the pixels where an object is at the pixel center.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from make_scene import surface, trace

from nerfmac.app.run import Run
from nerfmac.backend import choose_device
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry import Camera, Placement, camera_rays
from nerfmac.rendering.surface_metrics import DepthErrors, depth_errors
from nerfmac.rendering.view_renderer import ViewRenderer

Array = np.ndarray[Any, Any]


def true_surface(camera: Camera, placement: Placement) -> tuple[Array, Array]:
    """Return the distance (pixels,) in scene units and the unit normal (pixels, 3) of the surface.

    Normals are in scene axes. In pixels without an object, the distance is infinite and the normal
    is 0.
    """
    rays = [np.array(values, np.float64) for values in camera_rays(camera)[:2]]
    origin = placement.to_file(rays[0]).astype(np.float32).T
    direction = placement.turned_to_file(rays[1]).astype(np.float32).T
    distance, which = trace(origin, direction)
    seen = np.flatnonzero(which >= 0)
    normal = np.zeros((len(which), 3))
    facing, _ = surface(origin[:, seen] + distance[seen] * direction[:, seen], which[seen])
    normal[seen] = facing.T @ placement.rotation.T
    return placement.scale * distance.astype(np.float64), normal


def normal_angles(normal: Array, truth: Array) -> Array:
    """Return the angles (n,), in degrees, between vectors (n, 3). The angle to a zero vector is 90
    degrees."""
    length = np.linalg.norm(normal, axis=1) * np.linalg.norm(truth, axis=1)
    cosine = np.einsum("ij,ij->i", normal, truth) / np.maximum(length, 1e-12)
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def compare(run: Run, cameras: Sequence[Camera]) -> tuple[DepthErrors, float]:
    """Return the depth errors at the pixels of the cameras, and the median angle in degrees between
    normals."""
    placement = run.scene.placement
    renderer = ViewRenderer(run.model.trained(run.state), RenderOptions(output="normal"))
    errors, angles = [], []
    for camera in cameras:
        distance, normal = true_surface(camera, placement)
        seen = np.isfinite(distance)
        pixels = renderer.render(camera)
        errors.append(np.abs(np.array(pixels.depth)[seen] / distance[seen] - 1.0))
        angles.append(normal_angles(np.array(pixels.values)[seen], normal[seen]))
    found = depth_errors(np.concatenate(errors))
    if found is None:
        raise SystemExit("no pixel shows an object")
    return found, float(np.median(np.concatenate(angles)))


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(
        description="Compare runs of the built-in scene with the truth."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--device", default="auto", help="device that computes")
    arguments = parser.parse_args()
    choose_device(arguments.device)
    for folder in arguments.runs:
        run = Run.load(folder)
        errors, angle = compare(run, run.images().cameras("test"))
        print(
            f"{folder}: depth error {100 * errors.median:.2f} % (median), {100 * errors.p90:.1f} % "
            f"(90th percentile), {100 * errors.within_3_percent:.1f} % within 3 %; normals "
            f"{angle:.1f} degrees (median)"
        )


if __name__ == "__main__":
    main()
