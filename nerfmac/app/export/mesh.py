"""`extract_mesh`: the surfaces of a field as triangles.

Marching cubes (Lorensen and Cline 1987, in Lewiner's form of 2003, by scikit-image) on fused depth
(`export.fusion`), or on the logarithm of the density, which is closer to linear between two
points than the density is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.app.export.density import Lattice
from nerfmac.app.export.fusion import depth_views, fused
from nerfmac.app.export.mesh_quality import WITHIN, held_out_share, pieces_of
from nerfmac.app.export.shape_files import ENDINGS, needed, write_shape
from nerfmac.app.export.source import Source
from nerfmac.app.export.threshold import surface_threshold
from nerfmac.app.run import Run
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.rendering.crop import Box

Vertices = npt.NDArray[np.float64]
Faces = npt.NDArray[np.int32]

logger = logging.getLogger("nerfmac")

FLOOR, CEILING = 1e-3, 1e30
"""Limits to which density, per scene unit, is clipped before its logarithm is taken."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in the coordinates of the scene's files, counter-clockwise seen from outside."""

    vertices: npt.NDArray[np.float64]  # (vertices, 3)
    normals: npt.NDArray[np.float32]  # (vertices, 3), unit, outwards
    colors: npt.NDArray[np.uint8]  # (vertices, 3), sRGB
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
    """Extract the surfaces of a run.

    In a scene with surroundings, rendered depth of the training cameras is fused
    (`export.fusion`); the mesh ends where no camera sees a surface. Of an object without
    surroundings, or with a `threshold`, the mesh is the closed surface around everything at least
    as dense. A line in the log says which.

    Args:
        run: The run to export.
        resolution: Cells along the longest side of the box, at least 2. Memory grows with its cube,
            and is checked first.
        threshold: Density on the surface, per scene unit. By default, for an object, the surface is
            where training rays have transmittance 1/2.
        crop: Lowest and highest corner of the box in the coordinates of the scene's files; by
            default around all that is occupied in the unit cube.
        smallest: Pieces with less than this fraction of the largest piece's area are removed as
            floaters. So are cavities without a training camera in them, if the mesh is closed.
        progress: Show a bar.

    Returns:
        `Mesh` in the coordinates of the scene's files. A warning says if it is in several pieces.

    Raises:
        InputError: If an argument is out of range, memory does not suffice, or nothing is there.

    Examples:
        >>> mesh = nerfmac.app.export.extract_mesh(run, resolution=32, progress=False)
        >>> mesh.save("still_life.glb")
    """
    needed("skimage.measure")
    if threshold is not None:
        checks.number("threshold", threshold, low=2 * FLOOR)
    checks.number("smallest", smallest, low=0, high=1)
    source = Source.of(run)
    region = source.region(crop)
    lattice = Lattice.over(region, resolution).grown()
    lattice.check_memory()
    is_fused = threshold is None and run.scene.extent > 1
    if is_fused:
        logger.info(
            "the mesh is where rendered depth of the training cameras agrees; --threshold takes a "
            "density instead"
        )
        position, faces = _fused_surface(run, lattice, source, progress=progress)
        position, faces, pieces = _large_pieces(position, faces, smallest)
        advice = ""
    else:
        if threshold is None:
            threshold = surface_threshold(source, region, run.cameras, run.config.seed)
            logger.info(
                f"the surface is where the density is {threshold:.3g}: there the training cameras' "
                "light ends; --threshold sets another"
            )
        position, faces = _level_set(lattice, source, threshold, progress=progress)
        cameras = source.placement.to_file([camera.pose[:, 3] for camera in run.cameras])
        position, faces, pieces = _large_pieces(position, faces, smallest, cameras)
        advice = f"a --threshold below {threshold:.3g} may join them; "
    if pieces > 1:
        logger.warning(
            f"the mesh is in {pieces} pieces: {advice}a larger --smallest, now {smallest:g}, "
            "removes more of the small ones"
        )
    if known := held_out_share(run, region, position, faces):
        share, number = known
        logger.info(
            f"{100.0 * share:.0f} % of {number} sparse points in the box that training did not use "
            f"are within {100.0 * WITHIN:g} % of the mesh"
        )
    reach = source.placement.scale * lattice.spacing
    normals, colors = source.surface(source.placement.to_scene(position), reach)
    if is_fused:  # the density of a plain surface may have no clear slope
        normals = _normals(position, faces)
    return Mesh(position, normals, colors, faces)


def _level_set(
    lattice: Lattice, source: Source, threshold: float, *, progress: bool
) -> tuple[Vertices, Faces]:
    """The closed surface on which the density is `threshold`."""
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
    index, faces = _marching_cubes(values, log(threshold))
    return lattice.position(index), faces


def _fused_surface(
    run: Run, lattice: Lattice, source: Source, *, progress: bool
) -> tuple[Vertices, Faces]:
    """The surface on which fused depth is zero; it is open where the space behind is unknown."""
    views = depth_views(run.renderer(), run.cameras, max(lattice.shape), progress=progress)
    values, is_known = fused(views, lattice, source.placement, progress=progress)
    np.negative(values, out=values)
    if not values.max() > 0.0:
        raise InputError("the mesh is empty: the training cameras see no surface in the box")
    index, faces = _marching_cubes(values, 0.0)
    # A vertex is between two lattice points. If one of them is unknown, there is no surface.
    ends = np.floor(index).astype(int), np.ceil(index).astype(int)
    is_surface = is_known[tuple(ends[0].T)] & is_known[tuple(ends[1].T)]
    faces = faces[is_surface[faces].all(axis=1)]
    if not len(faces):
        raise InputError("the mesh is empty: the training cameras see no surface in the box")
    return lattice.position(index), faces


def _marching_cubes(values: npt.NDArray[np.float32], level: float) -> tuple[Vertices, Faces]:
    """Vertices, as indices of `values`, and faces of the surface around values above `level`."""
    measure = needed("skimage.measure")
    # "ascent" turns faces outwards if, as here, the array's axes are x, y and z in this order.
    index, faces, _, _ = measure.marching_cubes(values, level, gradient_direction="ascent")
    return index, faces


def _twice_areas(position: Vertices, faces: Faces) -> Vertices:
    """Normals (faces, 3) of the faces, as long as twice their areas."""
    first, second, third = (position[faces[:, corner]] for corner in range(3))
    return np.cross(second - first, third - first)


def _normals(position: Vertices, faces: Faces) -> npt.NDArray[np.float32]:
    """Unit normals (vertices, 3): means over the faces around each vertex, weighted by area."""
    twice = _twice_areas(position, faces)
    total = np.stack(
        [np.bincount(faces.ravel(), np.repeat(part, 3), len(position)) for part in twice.T], axis=1
    )
    length = np.linalg.norm(total, axis=1, keepdims=True)
    return (total / np.maximum(length, 1e-30)).astype(np.float32)


def _large_pieces(
    position: Vertices,
    faces: Faces,
    smallest: float,
    cameras: npt.NDArray[np.floating] | None = None,
) -> tuple[Vertices, Faces, int]:
    """The mesh without floaters and unseen cavities, and its number of connected pieces.

    A floater has less than `smallest` of the largest piece's area. A cavity is a piece of a closed
    mesh that faces inwards: its signed volume is negative. Training cannot tell the inside of
    objects, so a cavity is kept only if its bounding box holds one of `cameras` (cameras, 3), as a
    room does. An open mesh is given without `cameras`. `position` is (vertices, 3), `faces`
    (faces, 3) counter-clockwise seen from outside.
    """
    count, piece = pieces_of(faces, len(position))
    twice, of_face = _twice_areas(position, faces), piece[faces[:, 0]]
    area = np.bincount(of_face, np.linalg.norm(twice, axis=1), count)
    is_seen = np.ones(count, bool)
    if cameras is not None:
        volume = np.bincount(of_face, np.einsum("fi,fi->f", twice, position[faces[:, 0]]), count)
        low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
        np.minimum.at(low, piece, position)
        np.maximum.at(high, piece, position)
        is_seen = volume > 0
        for camera in cameras:
            is_seen |= ((low <= camera) & (camera <= high)).all(axis=1)
    is_kept = is_seen & (area > 0) & (area >= smallest * area[is_seen].max())
    vertex_kept = is_kept[piece]
    number = np.cumsum(vertex_kept, dtype=np.int32) - 1
    return position[vertex_kept], number[faces[is_kept[of_face]]], int(is_kept.sum())
