"""Shared parts of all exports: `Source`, the field, the occupied cells, and the scene placement of
a run; `Stage`, the progress; and `writing`, the output file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from tqdm.auto import tqdm

from nerfmac.app.run import Run
from nerfmac.app.scenes.placement import shown_coordinates
from nerfmac.backend import confirm, to_numpy
from nerfmac.common import InputError, appearing, finite, log, user_path
from nerfmac.common.arrays import BoolArray, Float32Array, Float64Array, UInt8Array
from nerfmac.config.rendering import Box
from nerfmac.geometry import Bounds, Placement, cells_of
from nerfmac.ops.march import Occupied, is_occupied
from nerfmac.rendering.normals import normals
from nerfmac.rendering.renderer import TrainedField

PAGE_EXTENSIONS = ".html", ".htm"
BATCH = 2**16  # Number of surface points for which normals and colors are evaluated at a time.


def check_extension(path: Path, content: str, *extensions: str) -> None:
    """Raise `InputError` unless the path has one of the file extensions of `content`."""
    if path.suffix.lower() not in extensions:
        expected = f"{', '.join(extensions[:-1])}{',' * (len(extensions) > 2)} or {extensions[-1]}"
        raise InputError(
            f"cannot write {content} to '{path}': the file extension must be "
            f"{expected.removeprefix(' or ')}"
        )


@contextmanager
def writing(path: str | Path, content: str, *extensions: str) -> Iterator[Path]:
    """Context manager that yields a partial file and renames it to `path` (see `appearing`), which
    must have one of the file extensions of `content`."""
    path = user_path(path)
    check_extension(path, content, *extensions)
    with appearing(path) as partial:
        yield partial


Progress = bool | Callable[[str, float], None]
"""Whether to show a progress bar, or a function that receives the name of the current stage and its
completed fraction. An exception of the function ends the export."""


class Stage(tqdm):
    """Progress bar of a stage of `total` steps of an export, as a context manager."""

    def __init__(self, total: int, name: str, unit: str, progress: Progress) -> None:
        super().__init__(total=total, desc=name, unit=unit, disable=progress is not True)
        self._name, self._done, self._progress = name, 0, progress
        self.update(0)

    def update(self, n: int = 1) -> None:
        """Record `n` completed steps."""
        super().update(n)
        self._done += n
        if callable(self._progress):
            self._progress(self._name, self._done / max(self.total, 1))


class OccupiedCells:
    """Lookup of occupied cells. Without an occupancy grid, the whole scene cube is occupied."""

    def __init__(self, occupied: Occupied | None, extent: float) -> None:
        self._occupied, self._bounds = occupied, Bounds(extent)

    def hold(self, position: Float64Array) -> BoolArray:
        """Return whether scene positions (..., 3) are in occupied cells of the scene cube."""
        is_inside = self._bounds.holds(position, 1e-6)
        if self._occupied is None:
            return is_inside
        # Positions on the faces of the cube belong to its outermost cells.
        low, high = self._bounds.corners
        margin = 1e-6 * self._bounds.extent
        points = mx.array(np.clip(position, low + margin, high - margin), mx.float32)
        return is_inside & to_numpy(
            is_occupied(points, self._occupied.bits, self._occupied.geometry)
        )

    def innermost(self) -> tuple[Float64Array, Float64Array] | None:
        """Return the lowest corner (3,) and the highest corner (3,) of the box around the occupied
        cells of the unit cube, or None if no cell of the unit cube is occupied."""
        if self._occupied is None:
            return np.zeros(3), np.ones(3)
        resolution = self._occupied.geometry.resolution
        words = np.array(self._occupied.bits).astype("<u4")
        is_set = np.unpackbits(words.view(np.uint8), bitorder="little", count=resolution**3)
        (numbers,) = np.nonzero(is_set)
        if not len(numbers):
            return None
        places = np.stack(cells_of(numbers, resolution)[1:], axis=1)
        return places.min(axis=0) / resolution, (places.max(axis=0) + 1) / resolution


class Region(NamedTuple):
    """Axis-aligned box in the coordinates of the input scene."""

    low: Float64Array  # (3,)
    high: Float64Array  # (3,)

    def holds(self, position: Float64Array) -> BoolArray:
        """Return whether each position (points, 3) is inside the box."""
        return np.all((position >= self.low) & (position <= self.high), axis=1)

    def __str__(self) -> str:
        side = float(np.max(self.high - self.low, initial=0.0))
        return " to ".join(f"({shown_coordinates(corner, side)})" for corner in self)


class Source(NamedTuple):
    """Field with averaged parameters, its occupied cells, and the placement of its scene."""

    trained: TrainedField
    occupied: OccupiedCells
    extent: float
    placement: Placement

    @classmethod
    def of(cls, run: Run) -> Source:
        """Create the source for a run."""
        trained = run.model.trained(run.state)
        cells = OccupiedCells(trained.occupied, run.scene.extent)
        return cls(trained, cells, run.scene.extent, run.scene.placement)

    def region(self, crop: Box | None) -> Region:
        """Return the box to export in the coordinates of the input scene, clipped to the scene
        cube. The default is the smallest box around the occupied cells of the unit cube. It
        excludes the distant background."""
        half = self.extent / 2
        cube = self._around((np.full(3, 0.5 - half), np.full(3, 0.5 + half)))
        if crop is None:
            innermost = self.occupied.innermost()
            if innermost is None:
                raise InputError("the occupancy grid of the run is empty; train the run for longer")
            requested = self._around(innermost)
            log.info("exporting the box %s; override with --crop", requested)
        else:
            requested = Region(*finite("crop", crop, (2, 3)))
            if (requested.low >= requested.high).any():
                raise InputError(
                    f"crop is {requested}; expected the lowest corner before the highest"
                )
        region = Region(np.maximum(requested.low, cube.low), np.minimum(requested.high, cube.high))
        if (region.low >= region.high).any():
            raise InputError(f"the crop {requested} is outside of the scene cube, {cube}")
        return region

    def _around(self, box: tuple[Float64Array, Float64Array]) -> Region:
        """Return the box in file coordinates around a box (low, high) in scene coordinates."""
        return Region(*self.placement.box_to_file(*box))

    def surface(
        self, position: Float64Array, reach: float | Float64Array
    ) -> tuple[Float32Array, UInt8Array]:
        """Compute normals (points, 3) and uint8 sRGB colors (points, 3) at surface points.

        Normals are unit vectors in the axes of the input scene that point towards lower density, or
        close to zero where the density is constant. Colors are those seen in the direction opposite
        to the normal.

        Args:
            position: Scene positions (points, 3).
            reach: Half the side length, in scene units, of a cube around each point, at whose
                corners the densities for the normals are evaluated. A number, or an array
                (points,).
        """
        reaches = np.broadcast_to(np.asarray(reach, np.float32), position.shape[:1])
        facing = np.empty(position.shape, np.float32)
        colors = np.empty(position.shape, np.uint8)
        for first in range(0, len(position), BATCH):
            some = slice(first, first + BATCH)
            points = mx.array(position[some], mx.float32)
            normal = normals(self.trained.density, points, mx.array(reaches[some]))
            color = mx.clip(self._color(points, -normal), 0.0, 1.0)
            facing[some] = self.placement.turned_to_file(to_numpy(normal))
            colors[some] = to_numpy(color * 255.0 + 0.5)
        confirm()
        return facing, colors

    def _color(self, position: mx.array, direction: mx.array) -> mx.array:
        """Return the color (points, 3) at positions (points, 3) along directions (points, 3)."""
        field, parameters = self.trained.field, self.trained.parameters
        samples, rays = self.trained.viewpoints.through(position)
        origin = position - samples.distance[:, None] * direction
        return field(parameters, samples, rays._replace(origin=origin, direction=direction)).color
