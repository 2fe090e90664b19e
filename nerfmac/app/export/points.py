"""`extract_points`: points on the surfaces that the training cameras see."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.app.export.shape_files import write_shape
from nerfmac.app.export.source import Region, Source, training_rays
from nerfmac.app.run import Run
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.geometry.bounds import from_center
from nerfmac.geometry.rays import Rays
from nerfmac.rendering.crop import Box
from nerfmac.rendering.renderer import Renderer, to_bytes

LARGEST_COUNT = 100_000_000
RAYS = 2**16
"""Number of rays that are traced at a time."""
OPAQUE = 0.5
"""Smallest opacity of a ray that ends at a surface."""
CELLS = 256
"""Cells along the unit cube's side; outside the cube cells grow with the distance from its center.
Densities for a normal are taken half a cell from its point along each axis."""
FRUITLESS = 4
"""Number of successive batches without a point after which the search ends."""

Batch = tuple[npt.NDArray[np.floating], ...]


@dataclass(frozen=True, eq=False)
class Points:
    """Points on surfaces, in the coordinates of the scene's files."""

    positions: npt.NDArray[np.float64]  # (points, 3)
    normals: npt.NDArray[np.float32]  # (points, 3), unit, out of the dense side
    colors: npt.NDArray[np.uint8]  # (points, 3), sRGB, as the camera saw them

    def __repr__(self) -> str:
        return f"Points({len(self.positions)})"

    def save(self, path: str | Path) -> None:
        """Write a .ply file.

        Raises `InputError` for another ending, without trimesh, and if it cannot be written.
        """
        path = user_path(path)
        if path.suffix.lower() != ".ply":
            raise InputError(f"{path} is no name for points; expected an ending of .ply")
        with appearing(path) as partial:
            none = np.zeros((0, 3), np.int32)
            write_shape(partial, self.positions, self.normals, self.colors, faces=none)


def extract_points(
    run: Run, *, count: int = 500_000, crop: Box | None = None, progress: bool = True
) -> Points:
    """Up to `count` points at which random rays of the training cameras end.

    A ray ends where its transmittance falls to 1/2. `crop` is as in `extract_mesh`, but by default
    there is none. Raises `InputError` for an argument out of range, and if the cameras see no
    surface.
    """
    checks.number("count", count, low=1, high=LARGEST_COUNT, whole=True)
    source, cameras, renderer = Source.of(run), run.cameras, run.renderer()
    everywhere = Region(np.full(3, -np.inf), np.full(3, np.inf))
    region = everywhere if crop is None else source.region(crop)
    random = np.random.default_rng(run.config.seed)
    batches: list[Batch] = []
    total = fruitless = 0
    with tqdm(total=count, desc="points", unit="point", disable=not progress) as bar:
        while total < count and fruitless < FRUITLESS:
            batch = _ray_ends(source, renderer, region, training_rays(cameras, RAYS, random))
            new = min(len(batch[0]), count - total)
            batches.append(tuple(values[:new] for values in batch))
            total, fruitless = total + new, 0 if new else fruitless + 1
            bar.update(new)
    if not total:
        raise InputError("there are no points: the training cameras see no surface in the box")
    position, normal, color = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    colors = to_bytes(color)
    return Points(source.placement.to_file(position), normal.astype(np.float32), colors)


def _ray_ends(source: Source, renderer: Renderer, region: Region, rays: Rays) -> Batch:
    """Scene positions, normals and colors, each (found, 3), of the surfaces where rays end."""
    color, opacity, depth = map(np.array, renderer.see(rays))
    chosen = np.flatnonzero(opacity > OPAQUE)
    distance = (depth[chosen] / opacity[chosen])[:, None]
    position = np.array(rays.origin)[chosen] + distance * np.array(rays.direction)[chosen]
    is_kept = region.holds(source.placement.to_file(position))
    chosen, position = chosen[is_kept], position[is_kept]
    normal, _ = source.surface(position, np.maximum(from_center(position), 0.5) / CELLS)
    return position, normal, color[chosen] / opacity[chosen, None]
