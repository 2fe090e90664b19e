"""`extract_mesh`: the surface at which a field reaches a density, as triangles.

Marching cubes (Lorensen and Cline 1987, in Lewiner's form of 2003, by scikit-image) on the
logarithm of the density, which is closer to linear between two points than the density is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.app.export.density import Lattice
from nerfmac.app.export.shape_files import ENDINGS, needed, write_shape
from nerfmac.app.export.source import Source
from nerfmac.app.export.threshold import surface_threshold
from nerfmac.app.run import Run
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.rendering.crop import Box

logger = logging.getLogger("nerfmac")

FLOOR, CEILING = 1e-3, 1e30
"""Limits to which density, per scene unit, is clipped before its logarithm is taken."""


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
        """Write a .ply, .obj or .glb file.

        Raises `InputError` for another ending, and if the file cannot be written.
        """
        path = user_path(path)
        if path.suffix.lower() not in ENDINGS:
            expected = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
            raise InputError(f"{path} is no mesh's name; expected an ending of {expected}")
        with appearing(path) as partial:
            write_shape(partial, **vars(self))


def extract_mesh(
    run: Run,
    *,
    resolution: int = 256,
    threshold: float | None = None,
    crop: Box | None = None,
    smallest: float = 0.01,
    progress: bool = True,
) -> Mesh:
    """The surface around everything at least as dense as `threshold`.

    Args:
        run: the run to export.
        resolution: cells along the longest side of the box, at least 2. Memory grows with its cube,
            and is checked first.
        threshold: the density on the surface, per scene unit; by default chosen so that the surface
            is where training rays have transmittance 1/2, with a line in the log.
        crop: the box, lowest and highest corner in the coordinates of the scene's files; by default
            around all that is occupied in the unit cube.
        smallest: pieces with less than this fraction of the largest piece's area are left out as
            floaters, and so are cavities without a training camera in them.
        progress: show a bar.

    The mesh is closed: where the box cuts through dense space, the cut is a surface too. A warning
    says if it is in several pieces. Raises `InputError` for an argument out of range, for too
    little memory, and if nothing in the box is denser than the threshold.

    >>> mesh = nerfmac.app.export.extract_mesh(run, resolution=32, progress=False)
    >>> mesh.save("still_life.glb")
    """
    measure = needed("skimage.measure")
    if threshold is not None:
        checks.number("threshold", threshold, low=2 * FLOOR)
    checks.number("smallest", smallest, low=0, high=1)
    source = Source.of(run)
    region = source.region(crop)
    lattice = Lattice.over(region, resolution).grown()
    lattice.check_memory()
    if threshold is None:
        threshold = surface_threshold(source, region, run.cameras, run.config.seed)
        logger.info(
            f"the surface is where the density is {threshold:.3g}: there the training cameras' "
            "light ends; --threshold sets another"
        )
    values = lattice.sample(source, progress=progress)
    for axis in range(3):  # close the surface on the box's faces
        np.moveaxis(values, axis, 0)[[0, -1]] = 0.0
    # Unlike the maximum, fmax replaces NaN.
    np.fmin(np.fmax(values, FLOOR, out=values), CEILING, out=values)
    densest = float(values.max())
    if not densest > threshold:
        raise InputError(
            f"the mesh is empty: nothing in the box is denser than the threshold, {threshold:g}; "
            f"the densest is {densest:.3g}"
        )
    np.log(values, out=values)
    # "ascent" turns faces outwards if, as here, the array's axes are x, y and z in this order.
    index, faces, _, _ = measure.marching_cubes(values, log(threshold), gradient_direction="ascent")
    del values  # a large array
    cameras = source.placement.to_file([camera.pose[:, 3] for camera in run.cameras])
    position, faces, pieces = _seen_pieces(lattice.position(index), faces, cameras, smallest)
    if pieces > 1:
        logger.warning(
            f"the mesh is in {pieces} pieces: a --threshold below {threshold:.3g} may join them; a "
            f"larger --smallest, now {smallest:g}, removes more of the small ones"
        )
    reach = source.placement.scale * lattice.spacing
    return Mesh(position, *source.surface(source.placement.to_scene(position), reach), faces)


def _seen_pieces(
    position: npt.NDArray[np.float64],
    faces: npt.NDArray[np.int32],
    cameras: npt.NDArray[np.floating],
    smallest: float,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], int]:
    """The closed mesh without floaters and unseen cavities, and its number of connected pieces.

    A floater has less than `smallest` of the largest piece's area. A cavity is a piece that faces
    inwards: its signed volume is negative. Training cannot tell the inside of objects, so a cavity
    is kept only if its bounding box holds one of `cameras` (cameras, 3), as a room does.
    `position` is (vertices, 3), `faces` (faces, 3) counter-clockwise seen from outside.
    """
    sparse, graph = needed("scipy.sparse"), needed("scipy.sparse.csgraph")
    one, other = faces[:, [0, 1]].ravel(), faces[:, [1, 2]].ravel()
    edges = sparse.coo_array((np.ones(len(one), bool), (one, other)), (len(position),) * 2)
    count, piece = graph.connected_components(edges, directed=False)
    corner, of_face = position[faces], piece[faces[:, 0]]
    twice = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    area = np.bincount(of_face, np.linalg.norm(twice, axis=1), count)
    volume = np.bincount(of_face, np.einsum("fi,fi->f", twice, corner[:, 0]), count)
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, piece, position)
    np.maximum.at(high, piece, position)
    is_seen = volume > 0
    for camera in cameras:
        is_seen |= ((low <= camera) & (camera <= high)).all(axis=1)
    is_kept = is_seen & (area >= smallest * area[is_seen].max())
    vertex_kept = is_kept[piece]
    number = np.cumsum(vertex_kept, dtype=np.int32) - 1
    return position[vertex_kept], number[faces[is_kept[of_face]]], int(is_kept.sum())
