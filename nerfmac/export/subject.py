"""`Subject`: of a run, what is exported: its field as pictures show it, and where that is."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.export.matter import Matter
from nerfmac.export.region import Region, region_of
from nerfmac.fields.field import Field, Parameters
from nerfmac.geometry.samples import Samples
from nerfmac.rendering.crop import Box
from nerfmac.rendering.normals import normals
from nerfmac.run import Run, placement_of
from nerfmac.scenes.placement import Placement

BATCH = 2**16
"""Surface points that are looked at at a time."""


class Look(NamedTuple):
    """What a surface looks like at some points."""

    normals: npt.NDArray[np.float32]  # (points, 3), unit, out of what is dense, in the files' axes
    colours: npt.NDArray[np.uint8]  # (points, 3), sRGB


class Subject(NamedTuple):
    """A field with its averaged parameters, where it may have matter, and its scene's placement."""

    field: Field
    parameters: Parameters
    matter: Matter
    extent: float
    placement: Placement

    @classmethod
    def of(cls, run: Run) -> Subject:
        """Raises `InputError` if nothing says where the scene's coordinates lie."""
        placement = placement_of(run)
        matter = Matter(run.trainer.sampler.occupied(run.state.sampling), run.scene.extent)
        return cls(run.trainer.field, run.state.average, matter, run.scene.extent, placement)

    def region(self, crop: Box | None) -> Region:
        """The box to export; see `region_of`."""
        return region_of(crop, self.placement, self.extent, self.matter)

    def density(self, position: mx.array) -> mx.array:
        """Density (points,) per scene unit at `position` (points, 3)."""
        return self.field.density(self.parameters, position)

    def look(self, position: npt.NDArray[np.floating], reach: npt.ArrayLike) -> Look:
        """How the surface at scene positions (points, 3) looks, seen against its normal.

        `reach`, one or (points,): how far from a point, in scene units, the density is compared to
        find the normal.
        """
        reaches = np.broadcast_to(np.asarray(reach, np.float32), position.shape[:1])
        facing = np.empty(position.shape, np.float32)
        colours = np.empty(position.shape, np.uint8)
        for first in range(0, len(position), BATCH):
            some = slice(first, first + BATCH)
            points = mx.array(position[some], mx.float32)
            normal = normals(self.density, points, mx.array(reaches[some]))
            seen = mx.clip(self._colour(points, -normal), 0.0, 1.0)
            facing[some] = self.placement.turned_to_file(np.array(normal))
            colours[some] = np.array(seen * 255.0 + 0.5)
        return Look(facing, colours)

    def _colour(self, position: mx.array, direction: mx.array) -> mx.array:
        """Colour (points, 3) at `position`, each of them seen in its own direction."""
        count = position.shape[0]
        samples = Samples(
            position,
            mx.ones(count),
            mx.ones(count),
            mx.arange(count, dtype=mx.int32),
            mx.arange(count + 1, dtype=mx.int32),
            mx.ones(count, mx.int32),
        )
        return self.field(self.parameters, samples, direction)[1]
