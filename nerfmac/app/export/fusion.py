"""Fusion of rendered depth into a truncated signed distance field (Curless and Levoy 1996).

For a captured scene, no single density threshold is correct, because the scene contains haze and
the density of textureless surfaces is spread out. However, all views agree on where rays end.
Therefore, depth is rendered from many training cameras. For a lattice point at distance r from a
camera, on a ray with depth d, the view contributes the signed distance d - r, limited to
`TRUNCATION` cells, unless the point is farther behind the surface. The surface is where the
weighted mean over all views is zero. Views perpendicular to the surface have the largest weight.
Floaters that are opaque in only a few views disappear, because the rays of other views pass through
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nerfmac.app.export.common import Progress, Stage
from nerfmac.app.export.density import Lattice
from nerfmac.app.scenes.orientation import project
from nerfmac.common import BoolArray, Float32Array, Float64Array
from nerfmac.geometry import Camera, Lens, Placement
from nerfmac.rendering.renderer import Renderer

MAX_VIEWS = 64  # Maximum number of depth images, rendered from evenly spaced training cameras.
MAX_SIDE = 1024  # Maximum number of pixels along the longer side of a rendered depth image.
MAX_TANGENT = 2.0
"""Maximum tangent of half a depth image's field of view, because a pinhole camera cannot cover the
whole field of view of a fisheye camera."""
TRUNCATION = 4
"""Maximum absolute signed distance in cells, and number of cells along a block of lattice
points."""
EMPTY = 0.2
"""Weight of a view for lattice points far in front of a surface or of the background. Near a
surface, the maximum weight is 1. The weight is low, because rays at object edges may miss the
object by chance and must not make it thinner."""
OPAQUE = 0.5  # Minimum opacity of a pixel that shows a surface.
BATCH = 2**18  # Number of lattice points that are compared with a view at a time.


@dataclass(frozen=True)
class DepthView:
    """Rendered depth of a pinhole camera."""

    camera: Camera
    depth: Float32Array  # (h, w) in scene units; infinite where no surface is visible.

    @cached_property
    def _positions(self) -> Float64Array:
        """Scene positions (h, w, 3) of the pixels, not finite where no surface is visible."""
        lens, pose = self.camera.lens, self.camera.pose.astype(np.float64)
        row, column = np.mgrid[: lens.height, : lens.width] + 0.5
        x, y = (column - lens.cx) / lens.fl_x, (lens.cy - row) / lens.fl_y
        direction = np.stack([x, y, -np.ones_like(x)], axis=-1) @ pose[:, :3].T
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        return pose[:, 3] + self.depth[..., None] * direction

    @cached_property
    def weight(self) -> Float32Array:
        """Weight (h, w) of each pixel in the fusion: the absolute cosine of the angle between its
        ray and the surface normal. It is 0 for pixels without a surface and for their neighbors."""
        with np.errstate(invalid="ignore"):
            down, across = np.gradient(self._positions, axis=(0, 1))
            normal = np.cross(across, down)
            ray = self._positions - self.camera.pose[:, 3]
            cosine = np.abs((normal * ray).sum(axis=-1))
            cosine /= np.linalg.norm(normal, axis=-1) * np.linalg.norm(ray, axis=-1)
        return np.nan_to_num(cosine).astype(np.float32)

    def points(self) -> Float64Array:
        """Return the scene positions (n, 3) of pixels with a surface."""
        return self._positions[np.isfinite(self.depth)]

    def signed_distance(self, position: Float64Array) -> tuple[Float32Array, Float32Array]:
        """Return the signed distance (n,) to the surface in scene units, the depth minus the
        distance from the camera, and the weight (n,) at scene positions (n, 3): NaN and 0 outside
        the image."""
        pose = self.camera.pose.astype(np.float64)
        is_inside, pixel = project(position, pose, self.camera.lens)
        column, row = pixel[is_inside].astype(int).T
        distance = np.full(len(position), np.nan, np.float32)
        weight = np.zeros(len(position), np.float32)
        from_camera = np.linalg.norm(position[is_inside] - pose[:, 3], axis=1)
        distance[is_inside] = self.depth[row, column] - from_camera
        weight[is_inside] = self.weight[row, column]
        return distance, weight


def depth_views(
    renderer: Renderer, cameras: Sequence[Camera], longest: int, *, progress: Progress
) -> list[DepthView]:
    """Render the depth of up to `MAX_VIEWS` cameras, with up to `longest` pixels per side."""
    chosen = np.unique(np.linspace(0, len(cameras) - 1, MAX_VIEWS).astype(int))
    views = []
    with Stage(len(chosen), "depth", "view", progress) as stage:
        for index in chosen:
            camera = _pinhole(cameras[index], min(longest, MAX_SIDE))
            rendered = renderer.render(camera)
            depth = np.where(rendered.opacity > OPAQUE, rendered.depth, np.inf).astype(np.float32)
            views.append(DepthView(camera, depth))
            stage.update()
    return views


def _pinhole(camera: Camera, longest: int) -> Camera:
    """Return an undistorted camera at the same position with about the same field of view."""
    tangents = [min(tangent, MAX_TANGENT) for tangent in camera.lens.tangents]
    width, height = (max(round(longest * each / max(tangents)), 2) for each in tangents)
    focal = width / (2.0 * tangents[0]), height / (2.0 * tangents[1])
    return Camera(Lens(width, height, *focal, width / 2, height / 2), camera.pose)


def fused(
    views: Sequence[DepthView], lattice: Lattice, placement: Placement, *, progress: Progress
) -> tuple[Float32Array, BoolArray]:
    """Compute the truncated signed distance at the points of a lattice from depth images.

    Returns the weighted mean over all views, as a fraction of the truncation distance, from -1
    (behind the surface) to 1 (in front of it), and whether any view contributes to it. Both arrays
    have the shape of the lattice.
    """
    values, is_known = np.ones(lattice.shape, np.float32), np.zeros(lattice.shape, np.bool_)
    index = np.argwhere(_near_surfaces(views, lattice, placement))
    truncation = TRUNCATION * lattice.spacing * placement.scale
    batches = range(0, len(index), BATCH)
    with Stage(len(batches), "fusion", "batch", progress) as stage:
        for first in batches:
            some = index[first : first + BATCH]
            position = placement.to_scene(lattice.position(some.astype(np.float64)))
            total, weights = np.zeros(len(some), np.float32), np.zeros(len(some), np.float32)
            for view in views:
                distance, weight = view.signed_distance(position)
                distance /= truncation
                weight = np.where(distance < 1.0, weight, EMPTY)
                weight = np.where(distance >= -1.0, weight, 0.0)  # Also excludes NaN.
                total += weight * np.nan_to_num(np.clip(distance, -1.0, 1.0))
                weights += weight
            values[tuple(some.T)] = total / np.maximum(weights, 1e-9)
            is_known[tuple(some.T)] = weights > 1e-9
            stage.update()
    return values, is_known


def _near_surfaces(views: Sequence[DepthView], lattice: Lattice, placement: Placement) -> BoolArray:
    """Flag the lattice points near a surface: all points in a block of `TRUNCATION` cells per side
    with a visible surface point, and in the adjacent blocks."""
    blocks = np.array(lattice.shape) // TRUNCATION + 3  # one more on every side
    near = np.zeros(blocks, np.bool_)
    for view in views:
        place = (placement.to_file(view.points()) - lattice.origin) / lattice.spacing
        block = np.floor(place / TRUNCATION).astype(int) + 1
        block = block[((block >= 0) & (block < blocks)).all(axis=1)]
        near[tuple(block.T)] = True
    for axis in range(3):
        moved = np.moveaxis(near, axis, 0)
        moved[1:-1] |= moved[:-2] | moved[2:]
    for axis in range(3):
        near = near.repeat(TRUNCATION, axis=axis)
    x, y, z = (slice(TRUNCATION, TRUNCATION + length) for length in lattice.shape)
    return near[x, y, z]
