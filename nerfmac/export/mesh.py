"""`extract_mesh`: the surface at which a field reaches a density, as triangles.

Marching cubes (Lorensen and Cline 1987, in Lewiner's form of 2003, by scikit-image) on the
logarithm of the density, which a field learns in: between two points it is nearer to a straight
line than the density itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.export.lattice import Lattice, check_memory, sampled
from nerfmac.export.libraries import needed
from nerfmac.export.pieces import seen_pieces
from nerfmac.export.shape_files import ENDINGS, write_shape
from nerfmac.export.subject import Subject
from nerfmac.export.threshold import surface_threshold
from nerfmac.rendering.crop import Box
from nerfmac.run import Run

logger = logging.getLogger("nerfmac")

RESOLUTION = 256
SMALLEST = 0.01

FLOOR, CEILING = 1e-3, 1e30
"""Densities, per scene unit, within which logarithms are taken: none and overflow have no value."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in the coordinates of the scene's files, counter-clockwise seen from outside."""

    vertices: npt.NDArray[np.float64]  # (vertices, 3)
    normals: npt.NDArray[np.float32]  # (vertices, 3), unit, outwards
    colours: npt.NDArray[np.uint8]  # (vertices, 3), sRGB
    faces: npt.NDArray[np.int32]  # (faces, 3), indices of vertices

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.faces)} faces)"

    def save(self, path: str | Path) -> None:
        """Write a .ply, .obj or .glb file. Raises `InputError`."""
        path = user_path(path)
        if path.suffix.lower() not in ENDINGS:
            raise InputError(f"{path} is no mesh's name; expected an ending of {_listed(ENDINGS)}")
        with appearing(path) as partial:
            write_shape(partial, self.vertices, self.normals, self.colours, self.faces)


def extract_mesh(
    run: Run,
    *,
    resolution: int = RESOLUTION,
    threshold: float | None = None,
    crop: Box | None = None,
    smallest: float = SMALLEST,
    progress: bool = True,
) -> Mesh:
    """The surface of what is at least as dense as `threshold`.

    Args:
        run: what is exported.
        resolution: cells along the longest side of the box, at least 2. Memory grows with its cube,
            and is checked first.
        threshold: the density on the surface, per scene unit; by default chosen so that the surface
            is where the training cameras' light ends, and said in a line.
        crop: the box, lowest and highest corner in the coordinates of the scene's files; by default
            around all that is occupied in the unit cube.
        smallest: pieces with less of a surface than this fraction of the largest piece's are
            floaters, which are left out; so are cavities in which no training camera stands.
        progress: whether to show a bar.

    The mesh is closed: where the box cuts through what is dense, the cut is a surface too. If it is
    in several pieces, a warning says so. Raises `InputError` for an argument out of range, too
    little memory, or if nothing is so dense.
    """
    measure = needed("skimage.measure")
    if threshold is not None:
        checks.number("threshold", threshold, low=2 * FLOOR)
    checks.number("smallest", smallest, low=0, high=1)
    subject = Subject.of(run)
    region = subject.region(crop)
    lattice = Lattice.over(region, resolution).grown()
    check_memory(lattice)
    if threshold is None:
        threshold = surface_threshold(subject, region, run.cameras, run.config.seed)
        logger.info(
            "the surface is where the density is %.3g: there the training cameras' light ends; a "
            "threshold sets another",
            threshold,
        )
    placement = subject.placement
    values = sampled(subject.density, lattice, subject.matter, placement, progress=progress)
    for axis in range(3):  # what reaches the box's faces is closed there
        np.moveaxis(values, axis, 0)[[0, -1]] = 0.0
    # Other than the maximum, fmax leaves out what is not a number.
    np.fmin(np.fmax(values, FLOOR, out=values), CEILING, out=values)
    densest = float(values.max())
    if not densest > threshold:
        raise InputError(
            f"the mesh is empty: nothing in the box is denser than the threshold, {threshold:g}; "
            f"the densest is {densest:.3g}"
        )
    np.log(values, out=values)
    # "ascent" turns faces outwards where, as here, the array's axes are x, y and z in this order.
    index, faces, _, _ = measure.marching_cubes(values, log(threshold), gradient_direction="ascent")
    del values  # a large array
    cameras = placement.to_file([camera.pose[:, 3] for camera in run.cameras])
    position, faces, pieces = seen_pieces(lattice.position(index), faces, cameras, smallest)
    if pieces > 1:
        logger.warning(
            "the mesh is in %d pieces: a threshold below %.3g may join them; a larger `smallest`, "
            "now %g, leaves more of the small ones out",
            *(pieces, threshold, smallest),
        )
    reach = placement.scale * lattice.spacing
    look = subject.look(placement.to_scene(position), reach)
    return Mesh(position, look.normals, look.colours, faces)


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1]
