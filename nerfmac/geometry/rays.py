"""Conversion of pixels to rays in scene coordinates.

Camera axes are as in `nerfmac.geometry.cameras`.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.common import checks, refuse_forked
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import fisheye_directions, undistort

NEW_VIEW = -1  # Value of `Rays.view` in renderings of new views.

# Radius of a pixel's cone, relative to the width of the pixel. The variance of the cone's cross
# section is then equal to the variance of the pixel (Barron et al. 2021, section 3.1).
PIXEL_RADIUS = 2.0 / sqrt(12.0)


_UNKNOWN: Any = None


class Rays(NamedTuple):
    """Rays in scene coordinates. The names are those of multinerf, except `view` (`cam_idx`) and
    `radius` (`radii`).

    Values that are unknown are None. A field always receives arrays, those of `complete`.

    Examples:
        >>> rays = nerfmac.Rays(mx.zeros((2, 3)), mx.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
        >>> rays.complete.view
        array([-1, -1], dtype=int32)
    """

    origin: mx.array  # (rays, 3) float32, position of the camera.
    direction: mx.array  # (rays, 3) float32, unit vector.
    view: mx.array = _UNKNOWN  # (rays,) int32, index of the training view, or `NEW_VIEW`.
    # (rays,) float32, radius of the pixel's cone at the distance 1 from the camera. At the distance
    # t, the radius of the cone is t * radius, as in mip-NeRF.
    radius: mx.array = _UNKNOWN
    # float32 scalar in [0, 1], completed fraction of the training. In renderings, the value is the
    # completed fraction of the training that computed the parameters.
    train_frac: mx.array = _UNKNOWN

    @property
    def complete(self) -> Rays:
        """The rays without None. An unknown view is `NEW_VIEW`, an unknown radius is 0, and an
        unknown fraction of the training is 1."""
        count = self.origin.shape[:1]
        view = mx.full(count, NEW_VIEW, mx.int32) if self.view is None else self.view
        radius = mx.zeros(count) if self.radius is None else self.radius
        frac = mx.array(1.0) if self.train_frac is None else self.train_frac
        return Rays(self.origin, self.direction, view, radius, frac)

    def at(self, index: slice | mx.array) -> Rays:
        """Return some of the rays.

        Args:
            index: Slice, or int32 array of the indices of the rays.

        Returns:
            Selected rays.
        """
        view, radius = (each if each is None else each[index] for each in (self.view, self.radius))
        return Rays(self.origin[index], self.direction[index], view, radius, self.train_frac)


def pixel_radius(cameras: Cameras, view: mx.array, direction: mx.array) -> mx.array:
    """Return `Rays.radius` (r,) of rays along `direction` (r, 3) from the cameras with the indices
    `view`, int32 (r,).

    A pixel of a perspective lens is smaller, seen from the camera, the farther it is from the
    optical axis. All pixels of a fisheye lens are treated as equal.
    """
    focal, ahead = cameras.intrinsics[view, :2], -cameras.poses[view, :, 2]
    shrinking = (ahead * direction).sum(axis=1)
    if cameras.is_fisheye:
        shrinking = mx.where(cameras.distortion[view, 6] > 0, 1.0, shrinking)
    return PIXEL_RADIUS * shrinking / mx.sqrt(focal[:, 0] * focal[:, 1])


def rays_through(cameras: Cameras, view: mx.array, pixel: mx.array) -> Rays:
    """Return the rays from camera centers through pixel positions.

    `view`, int32 (r,), contains the camera index of each ray, and `pixel`, float32 (r, 2), contains
    x (right) and y (down) in pixels. `mx.compile` can compile the function, with the arrays in
    `cameras` either captured or passed as arguments. The range of the indices is not checked.
    """
    checks.dtype("view", view, mx.int32)
    checks.dtype("pixel", pixel, mx.float32)
    checks.shape("view", view, (None,))
    checks.shape("pixel", pixel, (view.shape[0], 2))
    distortion = cameras.distortion[view] if cameras.is_distorted else None
    lens = cameras.intrinsics[view], distortion, cameras.is_fisheye
    origin, direction = _through(*lens, cameras.poses[view], pixel)
    return Rays(origin, direction, view, pixel_radius(cameras, view, direction))


def _through(
    intrinsics: mx.array,
    distortion: mx.array | None,
    is_fisheye: bool,
    poses: mx.array,
    pixel: mx.array,
) -> tuple[mx.array, mx.array]:
    seen = directions((pixel - intrinsics[:, 2:]) / intrinsics[:, :2], distortion, is_fisheye)
    x, y, z = seen[:, :1], seen[:, 1:2], seen[:, 2:]
    # Directions are rotated with sums of columns, because a GPU may compute a matmul in TF32 with
    # only ten mantissa bits.
    direction = poses[:, :, 0] * x - poses[:, :, 1] * y - poses[:, :, 2] * z
    length = mx.sqrt(mx.sum(mx.square(direction), axis=-1, keepdims=True))
    origin = mx.broadcast_to(poses[:, :, 3], direction.shape)
    return origin, direction / length


def directions(point: mx.array, distortion: mx.array | None, is_fisheye: bool) -> mx.array:
    """Return the directions (r, 3) that lenses map to points, without normalization.

    Directions have x right, y down, and z forward. `point` (r, 2) is relative to the principal
    point, in focal lengths. `distortion` is (r, 7) or (1, 7) as in `Cameras`, or None for pinhole
    cameras. `is_fisheye` specifies whether any lens is a fisheye lens.
    """
    refuse_forked()
    ahead = mx.ones((point.shape[0], 1))
    if distortion is None:
        return mx.concatenate([point, ahead], axis=-1)
    straight = mx.concatenate([undistort(point, distortion[:, :6]), ahead], axis=-1)
    if not is_fisheye:
        return straight
    return mx.where(distortion[:, 6:] > 0, fisheye_directions(point, distortion[:, :4]), straight)


def camera_rays(camera: Camera) -> Rays:
    """Return the rays through the centers of all pixels of a camera, in row-major order."""
    cameras = Cameras.stack([camera])
    distortion = cameras.distortion if cameras.is_distorted else None
    width, height = camera.lens.size
    index = mx.arange(width * height)
    lens = cameras.intrinsics, distortion, cameras.is_fisheye
    origin, direction = _pixel_rays(index, mx.array(width), *lens, cameras.poses)
    return Rays(origin, direction, radius=pixel_radius(cameras, mx.zeros_like(index), direction))


def panorama_rays(camera: Camera, eye: float = 0.0) -> Rays:
    """Return the rays of an equirectangular panorama, in row-major order.

    The columns cover 360 degrees. From left to right, they show the directions behind, to the left
    of, in front of, to the right of, and again behind the camera. The rows cover 180 degrees, from
    top to bottom. Of the camera intrinsics, only the image size and the principal point are used.
    If the principal point is not at the image center, the panorama is shifted by the difference.

    For stereo panoramas, `eye` is the offset of an eye from the camera position, in scene units:
    positive for the right eye and negative for the left eye. The rays are tangent to a circle
    around the camera, because a viewer's eyes move along this circle when the head turns (Peleg,
    Ben-Ezra, Pritch: Omnistereo: panoramic stereo imaging, 2001).
    """
    lens, pose = camera.lens, mx.array(camera.pose)
    index = mx.arange(lens.width * lens.height)
    column = (index % lens.width).astype(mx.float32) + (0.5 + lens.width / 2 - lens.cx)
    row = (index // lens.width).astype(mx.float32) + (0.5 + lens.height / 2 - lens.cy)
    right, down = (column / lens.width - 0.5) * 2.0 * pi, (row / lens.height - 0.5) * pi
    level = mx.cos(down)
    parts = level * mx.sin(right), -mx.sin(down), -level * mx.cos(right)
    axes = zip(parts, pose.T[:3], strict=True)
    direction = sum((part[:, None] * axis for part, axis in axes), start=mx.zeros(3))
    origin = mx.broadcast_to(pose[:, 3], direction.shape)
    if eye:
        across = mx.cos(right)[:, None] * pose[:, 0] + mx.sin(right)[:, None] * pose[:, 2]
        origin = origin + eye * across
    radius = mx.full(column.shape, PIXEL_RADIUS * 2.0 * pi / lens.width)
    return Rays(origin, direction, radius=radius)


@mx.compile
def _pixel_rays(
    index: mx.array,
    width: mx.array,  # an array, because a number would require a new kernel for each width
    intrinsics: mx.array,
    distortion: mx.array | None,
    is_fisheye: bool,
    poses: mx.array,
) -> tuple[mx.array, mx.array]:
    pixel = mx.stack([index % width, index // width], axis=-1).astype(mx.float32) + 0.5
    return _through(intrinsics, distortion, is_fisheye, poses, pixel)
