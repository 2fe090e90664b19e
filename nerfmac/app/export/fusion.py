"""Fusion of rendered depth into a truncated signed distance field (Curless and Levoy 1996).

The density of a captured scene has no single threshold: haze is everywhere, and plain surfaces are
thick. What all views agree on is where the light of a ray ends. Therefore, the depth of many
training cameras is rendered. A lattice point at the distance r from a camera, on a ray of the depth
d, has in this view the signed distance d - r, at most `TRUNCATION` cells, and no value if it is
farther behind the surface. The surface is where the mean over all views is zero; a view that sees a
surface head-on counts most. Floaters that a few views see as a surface disappear, because the other
views see through them.

Only lattice points near the surface of some view are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.app.export.density import Lattice
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.placement import Placement
from nerfmac.rendering.renderer import Renderer

MOST_VIEWS = 64
"""Largest number of training cameras, spread evenly over all."""
LONGEST = 1024
"""Largest number of pixels along the longer side of a rendered depth image."""
WIDEST = 2.0
"""Largest tangent of half the field of view: a fisheye lens sees more, but a pinhole does not."""
TRUNCATION = 4
"""Largest signed distance in cells, and the cells of a block along each axis."""
EMPTY = 0.2
"""Weight of a view that sees through a point. The greatest weight of a surface is 1. At the edge of
an object, a ray may pass by that should have met it: this must not thin the object."""
OPAQUE = 0.5
"""Smallest opacity of a pixel with a surface."""
BATCH = 2**18
"""Number of lattice points that are compared with a view at a time."""

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DepthView:
    """Rendered depth of a pinhole camera."""

    camera: Camera
    depth: Floats  # (h, w) in scene units; infinite without a surface

    @cached_property
    def _positions(self) -> npt.NDArray[np.float64]:
        """Scene positions (h, w, 3) of the pixels' surfaces; not finite without a surface."""
        lens, pose = self.camera.lens, self.camera.pose.astype(np.float64)
        row, column = np.mgrid[: lens.height, : lens.width] + 0.5
        x, y = (column - lens.cx) / lens.fl_x, (lens.cy - row) / lens.fl_y
        direction = np.stack([x, y, -np.ones_like(x)], axis=-1) @ pose[:, :3].T
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        return pose[:, 3] + self.depth[..., None] * direction

    @cached_property
    def weight(self) -> Floats:
        """Cosine (h, w) of the angle between each pixel's ray and the normal of its surface.

        It is 0 next to edges of objects, where a ray passes by or not by chance.
        """
        with np.errstate(invalid="ignore"):
            down, across = np.gradient(self._positions, axis=(0, 1))
            normal = np.cross(across, down)
            ray = self._positions - self.camera.pose[:, 3]
            cosine = np.abs((normal * ray).sum(axis=-1))
            cosine /= np.linalg.norm(normal, axis=-1) * np.linalg.norm(ray, axis=-1)
        return np.nan_to_num(cosine).astype(np.float32)

    def points(self) -> npt.NDArray[np.float64]:
        """Scene positions (n, 3) of the pixels with a surface."""
        return self._positions[np.isfinite(self.depth)]

    def signed_distance(self, position: npt.NDArray[np.float64]) -> tuple[Floats, Floats]:
        """Depth minus distance at scene positions (n, 3), and its weight, each (n,).

        Outside of the image, the distance is NaN and the weight 0.
        """
        lens, pose = self.camera.lens, self.camera.pose.astype(np.float64)
        x, y, z = ((position - pose[:, 3]) @ pose[:, :3]).T
        ahead = np.maximum(-z, 1e-9)
        column = np.floor(lens.cx + lens.fl_x * x / ahead)
        row = np.floor(lens.cy - lens.fl_y * y / ahead)
        inside = (z < 0) & (column >= 0) & (column < lens.width) & (row >= 0) & (row < lens.height)
        distance = np.full(len(position), np.nan, np.float32)
        weight = np.zeros(len(position), np.float32)
        pixel = row[inside].astype(int), column[inside].astype(int)
        distance[inside] = self.depth[pixel] - np.sqrt(x * x + y * y + z * z)[inside]
        weight[inside] = self.weight[pixel]
        return distance, weight


def depth_views(
    renderer: Renderer, cameras: Sequence[Camera], longest: int, *, progress: bool
) -> list[DepthView]:
    """Render the depth of some `cameras`, at most `longest` pixels along the longer side."""
    chosen = np.unique(np.linspace(0, len(cameras) - 1, MOST_VIEWS).astype(int))
    views = []
    for index in tqdm(chosen, desc="depth", unit="view", disable=not progress):
        camera = _pinhole(cameras[index], min(longest, LONGEST))
        rendered = renderer.render(camera)
        depth = np.where(rendered.opacity > OPAQUE, rendered.depth, np.inf).astype(np.float32)
        views.append(DepthView(camera, depth))
    return views


def _pinhole(camera: Camera, longest: int) -> Camera:
    """A camera at the same place, without distortion, with about the same field of view."""
    tangents = [min(tangent, WIDEST) for tangent in camera.lens.tangents]
    width, height = (max(round(longest * each / max(tangents)), 2) for each in tangents)
    focal = width / (2.0 * tangents[0]), height / (2.0 * tangents[1])
    return Camera(Lens(width, height, *focal, width / 2, height / 2), camera.pose)


def fused(
    views: Sequence[DepthView], lattice: Lattice, placement: Placement, *, progress: bool
) -> tuple[Floats, Flags]:
    """Fuse the depth of all `views` on the points of a lattice.

    Args:
        views: Depth in scene units.
        lattice: Points in the coordinates of the scene's files.
        placement: From these coordinates to scene space.
        progress: Show a bar.

    Returns:
        Mean signed distance, in units of the truncation from -1 (behind) to 1 (in front), and
        whether it is known, both of the lattice's shape.
    """
    values, is_known = np.ones(lattice.shape, np.float32), np.zeros(lattice.shape, np.bool_)
    index = np.argwhere(_near_surfaces(views, lattice, placement))
    truncation = TRUNCATION * lattice.spacing * placement.scale
    batches = range(0, len(index), BATCH)
    for first in tqdm(batches, desc="fusion", unit="batch", disable=not progress):
        some = index[first : first + BATCH]
        position = placement.to_scene(lattice.position(some.astype(np.float64)))
        total, weights = np.zeros(len(some), np.float32), np.zeros(len(some), np.float32)
        for view in views:
            distance, weight = view.signed_distance(position)
            distance /= truncation
            weight = np.where(distance < 1.0, weight, EMPTY)
            weight = np.where(distance >= -1.0, weight, 0.0)  # also for NaN
            total += weight * np.nan_to_num(np.clip(distance, -1.0, 1.0))
            weights += weight
        values[tuple(some.T)] = total / np.maximum(weights, 1e-9)
        is_known[tuple(some.T)] = weights > 1e-9
    return values, is_known


def _near_surfaces(views: Sequence[DepthView], lattice: Lattice, placement: Placement) -> Flags:
    """Which lattice points are in a block with a surface of some view, or next to one."""
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
