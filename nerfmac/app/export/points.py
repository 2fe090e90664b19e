"""`extract_points` extracts points on the surfaces that training cameras see."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nerfmac.app.export.common import Progress, Region, Source, Stage, writing
from nerfmac.app.export.shape_files import write_shape
from nerfmac.app.run import Run, random_rays
from nerfmac.common import Float32Array, Float64Array, InputError, UInt8Array, checks
from nerfmac.config.rendering import Box
from nerfmac.geometry import Cameras, Rays, from_center
from nerfmac.rendering.renderer import Renderer, to_bytes

MAX_COUNT = 100_000_000
RAYS = 2**16  # Number of rays that are traced at a time.
OPAQUE = 0.5  # Minimum opacity of a ray that ends at a surface.
CELLS = 256
"""Number of cells along the unit cube. Normals are computed from densities at half a cell from the
point along each axis. Outside the unit cube, cells grow with the distance from its center."""
FRUITLESS = 4  # Number of consecutive batches without a point after which the search stops.

Batch = tuple[Float32Array | Float64Array, ...]


@dataclass(frozen=True, eq=False)
class Points:
    """Points on surfaces, in the coordinates of the input scene."""

    positions: Float64Array  # (points, 3).
    normals: Float32Array  # (points, 3), unit vectors pointing out of the dense side.
    colors: UInt8Array  # (points, 3), sRGB, as seen by the camera.

    def __repr__(self) -> str:
        return f"Points({len(self.positions)})"

    def save(self, path: str | Path) -> None:
        """Write the points to a file.

        Args:
            path: File with the extension .ply.

        Raises:
            InputError: If the file has another extension or cannot be written.
        """
        with writing(path, "points", ".ply") as partial:
            none = np.zeros((0, 3), np.int32)
            write_shape(partial, self.positions, self.normals, self.colors, faces=none)


def extract_points(
    run: Run, *, count: int = 500_000, crop: Box | None = None, progress: Progress = True
) -> Points:
    """Extract points on the surfaces that training cameras see.

    The points are on random rays of the training cameras, where the transmittance falls to 1/2.

    Args:
        run: Run to export.
        count: Maximum number of points.
        crop: Lowest and highest corner of the box to export, in the coordinates of the input scene.
            By default, points are not limited to a box.
        progress: Whether to show a progress bar, or a function; see `common.Progress`.

    Returns:
        Points in the coordinates of the input scene.

    Raises:
        InputError: If an argument is out of range, or the cameras see no surface.
    """
    checks.number("count", count, low=1, high=MAX_COUNT, whole=True)
    source, cameras, renderer = Source.of(run), Cameras.stack(run.cameras), run.renderer()
    everywhere = Region(np.full(3, -np.inf), np.full(3, np.inf))
    region = everywhere if crop is None else source.region(crop)
    random = np.random.default_rng(run.config.seed)
    batches: list[Batch] = []
    total = fruitless = 0
    with Stage(count, "points", "point", progress) as stage:
        while total < count and fruitless < FRUITLESS:
            batch = _ray_ends(source, renderer, region, random_rays(cameras, RAYS, random))
            new = min(len(batch[0]), count - total)
            batches.append(tuple(values[:new] for values in batch))
            total, fruitless = total + new, 0 if new else fruitless + 1
            stage.update(new)
    if not total:
        raise InputError(
            "there are no points: the training cameras see no surface in the box; use another "
            "--crop"
        )
    position, normal, color = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Points(source.placement.to_file(position), normal.astype(np.float32), to_bytes(color))


def _ray_ends(source: Source, renderer: Renderer, region: Region, rays: Rays) -> Batch:
    """Return scene positions, normals, and colors, each (found, 3), of surfaces where rays end."""
    color, opacity, depth = map(np.array, renderer.see(rays)[:3])
    chosen = np.flatnonzero(opacity > OPAQUE)
    distance = (depth[chosen] / opacity[chosen])[:, None]
    position = np.array(rays.origin)[chosen] + distance * np.array(rays.direction)[chosen]
    is_kept = region.holds(source.placement.to_file(position))
    chosen, position = chosen[is_kept], position[is_kept]
    normal, _ = source.surface(position, np.maximum(from_center(position), 0.5) / CELLS)
    return position, normal, color[chosen] / opacity[chosen, None]
