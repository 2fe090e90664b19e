"""Mesh quality: connected components, and the distance of known surface points from the mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.app.export.shape_files import needed
from nerfmac.app.export.source import Region
from nerfmac.app.run import Run
from nerfmac.common.checks import InputError
from nerfmac.geometry.ground_plane import nearest_distance

WITHIN = 0.01
"""Maximum distance from the mesh of a point that counts as on the mesh, as a fraction of its
distance from the nearest camera."""
NEIGHBORS = 8
"""Number of candidate triangles for computing a point's distance from the mesh: those with the
nearest centers."""

Array = npt.NDArray[np.floating]
Faces = npt.NDArray[np.int32]


def held_out_share(
    run: Run, region: Region, vertices: Array, faces: Faces
) -> tuple[float, int] | None:
    """Return the fraction of the sparse points in the box `region` that are on the mesh (see
    `WITHIN`), among the points that were excluded from training, and their number. The result is
    None if there are no points or the scene cannot be read."""
    try:
        scene = run.images()
    except InputError:
        return None
    points = scene.held_out["train"].points if "train" in scene.held_out else scene.points
    if points is None or scene.placement is None:
        return None
    position = scene.placement.to_file(points)
    is_inside = region.holds(position)
    if not is_inside.any():
        return None
    distance = scene.placement.scale * distances_to_mesh(position[is_inside], vertices, faces)
    eyes = np.stack([camera.pose[:, 3] for camera in run.cameras])
    share = (distance <= WITHIN * nearest_distance(points[is_inside], eyes)).mean()
    return float(share), int(is_inside.sum())


def pieces_of(faces: Faces, vertices: int) -> tuple[int, npt.NDArray[np.int32]]:
    """Return the number of connected components of a mesh, and the component index of each vertex,
    shape (vertices,). A vertex without a face counts as a component."""
    sparse, graph = needed("scipy.sparse"), needed("scipy.sparse.csgraph")
    one, other = faces[:, [0, 1]].ravel(), faces[:, [1, 2]].ravel()
    edges = sparse.coo_array((np.ones(len(one), bool), (one, other)), (vertices,) * 2)
    found: Any = graph.connected_components(edges, directed=False)
    return found


def distances_to_mesh(points: Array, vertices: Array, faces: Faces) -> Array:
    """Return the distances (n,) of points (n, 3) from the nearest triangle. Only triangles with the
    nearest centers are compared, so triangles should have similar sizes, as the triangles of
    marching cubes do."""
    corners = vertices[faces]
    tree = needed("scipy.spatial").cKDTree(corners.mean(axis=1))
    count = min(NEIGHBORS, len(faces))
    nearest = tree.query(points, count)[1].reshape(len(points), count)
    distances = [_distances(points, corners[column]) for column in nearest.T]
    return np.asarray(np.min(distances, axis=0))


def _distances(points: Array, corners: Array) -> Array:
    """Return the distance (n,) of each point (n, 3) from the triangle with the same index."""
    first, second, third = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(second - first, third - first)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    edges = ((first, second), (second, third), (third, first))
    inside = [
        np.einsum("ij,ij->i", np.cross(end - start, points - start), normal) >= 0
        for start, end in edges
    ]
    to_plane = np.abs(np.einsum("ij,ij->i", points - first, normal))
    to_edges = np.min([_to_segment(points, start, end) for start, end in edges], axis=0)
    return np.where(np.all(inside, axis=0), to_plane, to_edges)


def _to_segment(points: Array, start: Array, end: Array) -> Array:
    """Return the distance (n,) of each point from the segment with the same index, all (n, 3)."""
    along = end - start
    square = np.maximum(np.einsum("ij,ij->i", along, along), 1e-30)
    fraction = np.clip(np.einsum("ij,ij->i", points - start, along) / square, 0.0, 1.0)
    return np.asarray(np.linalg.norm(points - start - fraction[:, None] * along, axis=1))
