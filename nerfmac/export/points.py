"""`extract_points`: points on the surfaces that the training cameras see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.export.region import Region
from nerfmac.export.shape_files import write_shape
from nerfmac.export.subject import Subject
from nerfmac.export.training_rays import training_rays
from nerfmac.geometry.bounds import from_centre
from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.crop import Box
from nerfmac.rendering.renderer import Renderer
from nerfmac.run import Run

COUNT = 500_000
LARGEST_COUNT = 100_000_000
RAYS = 2**16
"""Rays that are traced at a time."""
OPAQUE = 0.5
"""The least opacity of a ray that ends at a surface."""
LEAST_THICKNESS = 0.02
"""Optical, of half a cell at a place that is on a surface rather than between two."""
CELLS = 256
"""Normals are taken over cells, of which so many fit along the unit cube; beyond it they grow."""
FRUITLESS = 4
"""Batches of rays in a row without a single point after which there are no more to be found."""


@dataclass(frozen=True, eq=False)
class Points:
    """Points on surfaces, in the coordinates of the scene's files."""

    positions: npt.NDArray[np.float64]  # (points, 3)
    normals: npt.NDArray[np.float32]  # (points, 3), unit, towards where the surface is seen from
    colours: npt.NDArray[np.uint8]  # (points, 3), sRGB, as the camera saw them

    def __repr__(self) -> str:
        return f"Points({len(self.positions)})"

    def save(self, path: str | Path) -> None:
        """Write a .ply file. Raises `InputError`."""
        path = user_path(path)
        if path.suffix.lower() != ".ply":
            raise InputError(f"{path} is no name for points; expected an ending of .ply")
        with appearing(path) as partial:
            none = np.zeros((0, 3), np.int32)
            write_shape(partial, self.positions, self.normals, self.colours, none)


def extract_points(
    run: Run, *, count: int = COUNT, crop: Box | None = None, progress: bool = True
) -> Points:
    """`count` points where random rays of the training cameras end, as far as any are found.

    A ray's depth is the mean of what it sees. Where that lies between two surfaces there is no
    density, and no point. `crop` as in `extract_mesh`, but by default none. Raises `InputError` for
    an argument out of range, and if the cameras see no surface.
    """
    checks.number("count", count, low=1, high=LARGEST_COUNT, whole=True)
    subject = Subject.of(run)
    region = Region(np.full(3, -np.inf), np.full(3, np.inf))
    if crop is not None:
        region = subject.region(crop)
    cameras, renderer = run.cameras, run.renderer()
    random = np.random.default_rng(run.config.seed)
    found: list[tuple[npt.NDArray[np.floating], ...]] = []
    total = fruitless = 0
    with tqdm(total=count, desc="points", unit="point", disable=not progress) as bar:
        while total < count and fruitless < FRUITLESS:
            some = _ends_of_rays(subject, renderer, cameras, region, random)
            new = min(len(some[0]), count - total)
            found.append(tuple(each[:new] for each in some))
            total, fruitless = total + new, 0 if new else fruitless + 1
            bar.update(new)
    if not total:
        raise InputError("there are no points: the training cameras see no surface in the box")
    position, normal, colour = (np.concatenate(each) for each in zip(*found, strict=True))
    bytes_of = (np.clip(colour, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return Points(subject.placement.to_file(position), normal.astype(np.float32), bytes_of)


def _ends_of_rays(
    subject: Subject,
    renderer: Renderer,
    cameras: Sequence[Camera],
    region: Region,
    random: np.random.Generator,
) -> tuple[npt.NDArray[np.floating], ...]:
    """Positions, normals and colours, each (found, 3), of what random rays end at."""
    rays = training_rays(cameras, RAYS, random)
    colour, opacity, depth = map(np.array, renderer.see(rays))
    chosen = np.flatnonzero(opacity > OPAQUE)
    away = (depth[chosen] / opacity[chosen])[:, None]
    position = np.array(rays.origin)[chosen] + away * np.array(rays.direction)[chosen]
    is_inside = region.holds(subject.placement.to_file(position))
    is_inside &= subject.matter.at(*position.T)
    reach = np.maximum(from_centre(position), 0.5) / CELLS
    density = np.array(subject.density(mx.array(position, mx.float32)))
    is_inside &= density * reach > LEAST_THICKNESS
    chosen, position = chosen[is_inside], position[is_inside]
    normal = subject.look(position, reach[is_inside]).normals
    return position, normal, colour[chosen] / opacity[chosen, None]
