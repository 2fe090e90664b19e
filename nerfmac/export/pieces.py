"""The connected pieces of a mesh, and which of them to keep."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.export.libraries import needed


def seen_pieces(
    position: npt.NDArray[np.float64],
    faces: npt.NDArray[np.int32],
    cameras: npt.NDArray[np.floating],
    smallest: float,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], int]:
    """The closed mesh without floaters and without cavities that no camera sees, and its pieces.

    A floater has less than `smallest` of the largest piece's area. A cavity is a piece that faces
    inwards, which its volume's sign tells. Training cannot tell what is inside of something, so
    only those are kept, such as a room, that have one of `cameras` (cameras, 3) in their box.

    Args:
        position: (vertices, 3).
        faces: (faces, 3), counter-clockwise seen from outside.
        cameras: positions of cameras, (cameras, 3).
        smallest: a fraction in [0, 1].
    """
    piece, count = _pieces(len(position), faces)
    corner = position[faces]
    of_face = piece[faces[:, 0]]
    twice = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    area = np.bincount(of_face, np.linalg.norm(twice, axis=1), count)
    volume = np.bincount(of_face, np.einsum("fi,fi->f", twice, corner[:, 0]), count)
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, piece, position)
    np.maximum.at(high, piece, position)
    holds = np.zeros(count, bool)
    for camera in cameras:
        holds |= ((low <= camera) & (camera <= high)).all(axis=1)
    is_seen = (volume > 0) | holds
    is_kept = is_seen & (area >= smallest * area[is_seen].max())
    return *_without(position, faces, is_kept[piece]), int(is_kept.sum())


def _pieces(vertices: int, faces: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], int]:
    """The number (vertices,) of the piece that each vertex belongs to, and how many there are."""
    sparse, graph = needed("scipy.sparse"), needed("scipy.sparse.csgraph")
    one, other = faces[:, [0, 1]].ravel(), faces[:, [1, 2]].ravel()
    edges = sparse.coo_array((np.ones(len(one), bool), (one, other)), (vertices, vertices))
    count, piece = graph.connected_components(edges, directed=False)
    return piece, count


def _without(
    position: npt.NDArray[np.float64], faces: npt.NDArray[np.int32], is_kept: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """The vertices that are kept, and the faces between them."""
    number = np.cumsum(is_kept, dtype=np.int32) - 1
    return position[is_kept], number[faces[is_kept[faces[:, 0]]]]
