"""`extract_density`: a field's density at the points of a lattice, to be used elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.export.lattice import Lattice, check_memory, sampled
from nerfmac.export.subject import Subject
from nerfmac.export.vdb import write_vdb
from nerfmac.rendering.crop import Box
from nerfmac.run import Run


@dataclass(frozen=True, eq=False)
class DensityGrid:
    """Density at `origin` + `spacing` (i, j, k), in the coordinates of the scene's files."""

    density: npt.NDArray[np.float32]  # (x, y, z), per unit of length of these coordinates
    origin: npt.NDArray[np.float64]  # (3,)
    spacing: float

    def __repr__(self) -> str:
        x, y, z = self.density.shape
        return f"DensityGrid({x} x {y} x {z})"

    def save(self, path: str | Path) -> None:
        """Write an .npz file with the arrays `density`, `origin` and `spacing`, or a .vdb volume.

        Raises `InputError`.
        """
        path = user_path(path)
        if path.suffix.lower() == ".vdb":
            with appearing(path) as partial:
                write_vdb(partial, self.density, self.origin, self.spacing)
            return
        if path.suffix.lower() != ".npz":
            raise InputError(f"{path} is no name for density; expected an ending of .npz or .vdb")
        with appearing(path) as partial, partial.open("wb") as file:
            np.savez_compressed(
                file, density=self.density, origin=self.origin, spacing=self.spacing
            )


def extract_density(
    run: Run, *, resolution: int = 256, crop: Box | None = None, progress: bool = True
) -> DensityGrid:
    """The density in a box, with `resolution` cells along its longest side.

    `crop` as in `extract_mesh`. Density is zero where the run's occupancy grid is empty, as it is
    in pictures. Raises `InputError` for an argument out of range, and for too little memory.
    """
    subject = Subject.of(run)
    lattice = Lattice.over(subject.region(crop), resolution)
    check_memory(lattice)
    placement = subject.placement
    values = sampled(subject.density, lattice, subject.matter, placement, progress=progress)
    values *= placement.scale  # a thickness has no unit, so densities go as 1 / length
    return DensityGrid(values, lattice.origin, lattice.spacing)
