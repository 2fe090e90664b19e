"""`extract_mesh` extracts the surfaces of a field as a triangle mesh.

The marching cubes algorithm (Lorensen and Cline 1987, in the variant by Lewiner 2003, from
scikit-image) is applied to fused depth (`export.fusion`) or to the logarithm of the density. The
logarithm is used because it is closer to linear between two lattice points than the density.

The default density threshold is the one whose level set best matches the surfaces along training
rays. The surface on a ray is the point where the transmittance decreases to one half. With a lower
threshold, the level set is in front of the surface. With a higher threshold, it is behind the
surface or has a hole.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from nerfmac.app.export.common import Progress, Region, Source, writing
from nerfmac.app.export.density import BATCH, Lattice
from nerfmac.app.export.fusion import depth_views, fused
from nerfmac.app.export.shape_files import EXTENSIONS, need_libraries, needed, write_shape
from nerfmac.app.run import Run, random_rays
from nerfmac.app.scenes.placement import UP, unit
from nerfmac.backend import to_numpy
from nerfmac.common import InputError, checks, log
from nerfmac.common.arrays import BoolArray, Float32Array, Float64Array, Int32Array, UInt8Array
from nerfmac.config.rendering import Box
from nerfmac.geometry import Camera, Cameras, Direction, nearest_distance

FLOOR, CEILING = 1e-3, 1e30
"""Range of the density per scene unit. The density is clipped before its logarithm is computed."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangle mesh in the coordinates of the input scene. The vertices of a face are in
    counter-clockwise order as seen from outside."""

    vertices: Float64Array  # (vertices, 3).
    normals: Float32Array  # (vertices, 3), unit vectors pointing outwards.
    colors: UInt8Array  # (vertices, 3), sRGB.
    faces: Int32Array  # (faces, 3), vertex indices.
    up: Direction = UP  # Up direction of the scene, which is the y axis in a GLB file.
    name: str = "mesh"  # Name of the mesh in a GLB file.

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.faces)} faces)"

    def save(self, path: str | Path) -> None:
        """Write the mesh to a file.

        Args:
            path: File with the extension .ply, .obj, or .glb.

        Raises:
            InputError: If the file has another extension or cannot be written.
        """
        with writing(path, "a mesh", *EXTENSIONS) as partial:
            write_shape(partial, **vars(self))


def extract_mesh(
    run: Run,
    *,
    resolution: int = 256,
    threshold: float | None = None,
    crop: Box | None = None,
    smallest: float = 0.01,
    progress: Progress = True,
) -> Mesh:
    """Extract the surfaces of a trained field as a triangle mesh.

    For a scene with a background, the depth that is rendered from training cameras is fused
    (`export.fusion`). The mesh is open where no camera sees a surface. For an object without a
    background, or if `threshold` is given, the mesh is the closed surface around all points with at
    least this density. The method is logged.

    Args:
        run: Run to export.
        resolution: Number of cells along the longest side of the box, at least 2. The required
            memory is proportional to the third power of the resolution and is checked first.
        threshold: Density at the surface, per scene unit. By default, depth is fused for a scene
            with a background. For an object, the default is the density that best matches a
            transmittance of 1/2 along training rays.
        crop: Lowest and highest corner of the box in the coordinates of the input scene. By
            default, the box around the occupied cells of the unit cube.
        smallest: Minimum area of a connected component, as a fraction of the largest component's
            area. Smaller components are removed as floaters. If the mesh is closed, cavities
            without a training camera are also removed.
        progress: Whether to show a progress bar, or a function; see `common.Progress`.

    Returns:
        Mesh in the coordinates of the input scene. If the mesh has more than one connected
        component, a warning is logged.

    Raises:
        InputError: If an argument is out of range, the memory is insufficient, or the mesh is
            empty.

    Examples:
        >>> mesh = nerfmac.app.export.extract_mesh(run, resolution=32, progress=False)
        >>> mesh.save("still_life.glb")
    """
    need_libraries()
    checks.optional_number("threshold", threshold, low=2 * FLOOR)
    checks.number("smallest", smallest, low=0, high=1)
    source = Source.of(run)
    region = source.region(crop)
    lattice = Lattice.over(region, resolution).grown()
    lattice.check_memory()
    is_fused = threshold is None and run.scene.bounds.has_surroundings
    if is_fused:
        log.info(
            "creating the mesh from the rendered depth of the training cameras; pass --threshold "
            "to use a density instead"
        )
        position, faces = _fused_surface(run, lattice, source, progress=progress)
        position, faces, pieces = _large_pieces(position, faces, smallest)
        advice = ""
    else:
        if threshold is None:
            threshold = surface_threshold(source, region, run.cameras, run.config.seed)
            log.info(
                f"creating the surface at density {threshold:.3g}, where the transmittance along "
                "training rays falls to one half; override with --threshold"
            )
        position, faces = _level_set(lattice, source, threshold, progress=progress)
        cameras = source.placement.to_file([camera.pose[:, 3] for camera in run.cameras])
        position, faces, pieces = _large_pieces(position, faces, smallest, cameras)
        advice = f"lower --threshold, now {threshold:.3g}, to join them; "
    if pieces > 1:
        log.warning(
            f"the mesh has {pieces} pieces: {advice}increase --smallest, now {smallest:g}, "
            "to remove more of the small ones"
        )
    if known := held_out_share(run, region, position, faces):
        share, number = known
        log.info(
            f"{100.0 * share:.0f} % of {number} sparse points in the box that were excluded from "
            f"training are within {100.0 * WITHIN:g} % of the mesh"
        )
    reach = source.placement.scale * lattice.spacing
    normals, colors = source.surface(source.placement.to_scene(position), reach)
    if is_fused:  # The density of a textureless surface may have no clear gradient.
        normals = _normals(position, faces)
    up = source.placement.turned_to_file(run.scene.up)
    return Mesh(position, normals, colors, faces, unit(up), run.scene.name)


def _level_set(
    lattice: Lattice, source: Source, threshold: float, *, progress: Progress
) -> tuple[Float64Array, Int32Array]:
    """Return the closed surface where the density equals `threshold`."""
    values = lattice.sample(source, progress=progress)
    for axis in range(3):  # Zeros close the surface at the faces of the box.
        np.moveaxis(values, axis, 0)[[0, -1]] = 0.0
    # In contrast to np.maximum, np.fmax replaces NaN.
    np.fmin(np.fmax(values, FLOOR, out=values), CEILING, out=values)
    densest = float(values.max())
    if not densest > threshold:
        raise InputError(
            f"the mesh is empty: no density in the box exceeds the threshold {threshold:g}; the "
            f"maximum density is {densest:.3g}; lower --threshold"
        )
    np.log(values, out=values)
    index, faces = _marching_cubes(values, math.log(threshold))
    return lattice.position(index), faces


def _fused_surface(
    run: Run, lattice: Lattice, source: Source, *, progress: Progress
) -> tuple[Float64Array, Int32Array]:
    """Return the zero level of the fused signed distance, which is open next to unknown space."""
    views = depth_views(run.renderer(), run.cameras, max(lattice.shape), progress=progress)
    values, is_known = fused(views, lattice, source.placement, progress=progress)
    np.negative(values, out=values)
    empty = InputError(
        "the mesh is empty: the training cameras see no surface in the box; use another --crop"
    )
    if not values.max() > 0.0:
        raise empty
    index, faces = _marching_cubes(values, 0.0)
    # A vertex is between two lattice points. If one of them is unknown, there is no surface.
    ends = np.floor(index).astype(int), np.ceil(index).astype(int)
    is_surface = is_known[tuple(ends[0].T)] & is_known[tuple(ends[1].T)]
    faces = faces[is_surface[faces].all(axis=1)]
    if not len(faces):
        raise empty
    return lattice.position(index), faces


def _marching_cubes(values: Float32Array, level: float) -> tuple[Float64Array, Int32Array]:
    """Return vertices (fractional indices) and faces of the surface around values above `level`."""
    measure = needed("skimage.measure")
    # "ascent" orients faces outwards if the axes of the array are x, y, and z, in this order.
    index, faces, _, _ = measure.marching_cubes(values, level, gradient_direction="ascent")
    return index, faces


def _twice_areas(position: Float64Array, faces: Int32Array) -> Float64Array:
    """Return face normals (faces, 3) with twice the face area as length."""
    first, second, third = (position[faces[:, corner]] for corner in range(3))
    return np.cross(second - first, third - first)


def _normals(position: Float64Array, faces: Int32Array) -> Float32Array:
    """Return the unit vertex normals (vertices, 3), area-weighted means over adjacent faces."""
    twice = _twice_areas(position, faces)
    total = np.stack(
        [np.bincount(faces.ravel(), np.repeat(part, 3), len(position)) for part in twice.T], axis=1
    )
    length = np.linalg.norm(total, axis=1, keepdims=True)
    return (total / np.maximum(length, 1e-30)).astype(np.float32)


def _large_pieces(
    position: Float64Array,
    faces: Int32Array,
    smallest: float,
    cameras: Float64Array | None = None,
) -> tuple[Float64Array, Int32Array, int]:
    """Remove floaters and cavities that no camera sees, and return the number of remaining
    components.

    A floater is a connected component with less than the fraction `smallest` of the largest
    component's area. A cavity is an inward-facing component of a closed mesh, with a negative
    signed volume, whose bounding box contains no camera (positions (cameras, 3)). In a room, it
    contains cameras. Training does not constrain the inside of objects. An open mesh (`cameras` is
    None) has no cavities.
    """
    edges = faces[:, [0, 1, 1, 2]].reshape(-1, 2)
    piece = needed("trimesh.graph").connected_component_labels(edges, len(position))
    count = int(piece.max()) + 1
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


WITHIN = 0.01
"""Maximum distance from the mesh of a point that counts as on the mesh, as a fraction of its
distance from the nearest camera."""
NEIGHBORS = 8
"""Number of candidate triangles for computing a point's distance from the mesh: those with the
nearest centers."""


def held_out_share(
    run: Run, region: Region, vertices: Float64Array, faces: Int32Array
) -> tuple[float, int] | None:
    """Return the fraction of the sparse points in the box `region` that are on the mesh (see
    `WITHIN`), among the points that were excluded from training, and their number. The result is
    None if there are no points or the scene cannot be read."""
    try:
        scene = run.images()
    except InputError:
        return None
    points = scene.held_out["train"].points if "train" in scene.held_out else scene.points
    if points is None:
        return None
    position = scene.placement.to_file(points)
    is_inside = region.holds(position)
    if not is_inside.any():
        return None
    distance = scene.placement.scale * distances_to_mesh(position[is_inside], vertices, faces)
    eyes = np.stack([camera.pose[:, 3] for camera in run.cameras])
    share = (distance <= WITHIN * nearest_distance(points[is_inside], eyes)).mean()
    return float(share), int(is_inside.sum())


def distances_to_mesh(
    points: Float64Array, vertices: Float64Array, faces: Int32Array
) -> Float64Array:
    """Return the distances (n,) of points (n, 3) from the nearest triangle. Only triangles with the
    nearest centers are compared, so triangles should have similar sizes, as the triangles of
    marching cubes do."""
    triangles, corners = needed("trimesh.triangles"), vertices[faces]
    corners = corners[triangles.area(corners) > 0.0]  # `closest_point` requires this.
    count = min(NEIGHBORS, len(corners))
    nearest = needed("scipy.spatial").cKDTree(corners.mean(axis=1)).query(points, count)[1].ravel()
    closest = triangles.closest_point(corners[nearest], np.repeat(points, count, axis=0))
    offsets = closest.reshape(len(points), count, 3) - points[:, None]
    return np.asarray(np.linalg.norm(offsets, axis=2).min(axis=1))


DEFAULT = 100.0
"""Typical density per scene unit at the surfaces of a well-trained run, also used if no ray hits a
surface."""
CANDIDATES = DEFAULT * 10.0 ** (np.arange(-24, 13) / 12.0)
"""Candidate thresholds in density per scene unit, from 1 to 1000."""
RAYS = 4096
STEPS = 256  # Number of ray steps along the longest side of the box.
MAX_DISTANCE = 8.0
"""Maximum distance, in steps, between the level set and the surface on a ray. Holes count as this
distance."""
SLACK = 1.0
"""Tolerance, in steps, for preferring `DEFAULT`: its mean distance may exceed the smallest mean
distance by this value. Grazing rays favor lower densities, because they pass through less of the
surface."""


def surface_threshold(
    source: Source, region: Region, cameras: Sequence[Camera], seed: int
) -> float:
    """Find the density threshold, per scene unit, whose level set best matches the surfaces on
    random training rays.

    For each candidate, the distance is measured between the first point with a higher density and
    the point where the transmittance decreases to one half. The result is the candidate with the
    smallest mean distance, or `DEFAULT` if it is within `SLACK` steps of the minimum. Rays with a
    transmittance that remains above one half are ignored.
    """
    step, position, is_inside = _ray_points(source, region, cameras, seed)
    is_inside &= source.occupied.hold(position)
    density = np.zeros(is_inside.shape, np.float32)
    index = np.argwhere(is_inside)
    for first in range(0, len(index), BATCH):
        some = tuple(index[first : first + BATCH].T)
        values = source.trained.density(mx.array(position[some], mx.float32))
        density[some] = np.nan_to_num(to_numpy(values), posinf=1e30)
    is_lit = np.cumsum(density * np.float32(step), axis=1) < math.log(2.0)
    ends = ~is_lit[:, -1:].any(axis=1)
    if not ends.any():
        return DEFAULT
    densest_yet: Float32Array = np.maximum.accumulate(density[ends], axis=1)
    end = is_lit[ends].sum(axis=1)
    distances = []
    for candidate in CANDIDATES:
        first_denser = (densest_yet <= candidate).sum(axis=1)
        is_hole = first_denser == densest_yet.shape[-1]
        distance = np.where(is_hole, MAX_DISTANCE, np.abs(first_denser - end))
        distances.append(np.minimum(distance, MAX_DISTANCE).mean())
    default, best = int(np.argmin(np.abs(CANDIDATES - DEFAULT))), int(np.argmin(distances))
    return float(CANDIDATES[default if distances[default] <= distances[best] + SLACK else best])


def _ray_points(
    source: Source, region: Region, cameras: Sequence[Camera], seed: int
) -> tuple[float, Float64Array, BoolArray]:
    """Return points at equal steps along random training rays, from where a ray enters the box: the
    step in scene units, scene positions (rays, points, 3), and whether each point (rays, points) is
    inside the box."""
    rays = random_rays(Cameras.stack(cameras), RAYS, np.random.default_rng(seed))
    origin, direction = np.array(rays.origin, np.float64), np.array(rays.direction, np.float64)
    placement = source.placement
    # The slabs of the box are computed in file coordinates, because the box is axis-aligned only
    # there.
    start = placement.to_file(origin)
    along = placement.turned_to_file(direction) / placement.scale
    along = np.where(np.abs(along) < 1e-12, 1e-12, along)
    faces = np.stack([(region.low - start) / along, (region.high - start) / along])
    enters = np.maximum(faces.min(axis=0).max(axis=1), 0.0)
    leaves = faces.max(axis=0).min(axis=1)
    hits = leaves > enters
    step = placement.scale * float((region.high - region.low).max()) / STEPS
    count = int(np.ceil((leaves - enters)[hits].max(initial=0.0) / step)) + 1
    distance = enters[hits, None] + step * (np.arange(count) + 0.5)
    position = origin[hits, None] + distance[..., None] * direction[hits, None]
    return step, position, distance < leaves[hits, None]
