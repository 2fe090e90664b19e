"""`Camera`, a single camera on the host, and `Cameras`, stacked cameras on the device.

Cameras have OpenGL axes: x is right, y is up, and z is backward, so a camera looks along its -z
axis. A pose is the camera-to-scene matrix [R | t] (3, 4), where t is the camera position in scene
coordinates. `geometry.lenses` maps directions to pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.common import BoolArray, Float64Array, InputError, Int32Array, checks
from nerfmac.common.constants import FRACTION_UNITS, SCENE_CENTER
from nerfmac.geometry.lenses import Lens

PARALLEL = 1e-3
"""Threshold on the smallest eigenvalue of mean(I - d d^T). Below the threshold, the viewing axes d
count as parallel (about 2 degrees)."""
COLUMNS = ("first", "height", "width", "kept", "other")


@dataclass(frozen=True, eq=False)
class Camera:
    """Pinhole or fisheye camera with a pose.

    Attributes:
        lens: Camera intrinsics.
        pose: Camera-to-scene pose, float32 (3, 4), with OpenGL axes.
    """

    lens: Lens
    pose: npt.NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        pose = checks.finite("pose", self.pose, (3, 4)).astype(np.float32)
        pose.setflags(write=False)
        object.__setattr__(self, "pose", pose)

    def __repr__(self) -> str:
        """Describe the image size in pixels, the position in scene coordinates, and the viewing
        direction."""
        eye, direction = self.pose[:, 3], 0.0 - self.pose[:, 2]
        shown = [f"({', '.join(f'{x:.2f}' for x in vector)})" for vector in (eye, direction)]
        size = f"{self.lens.width}x{self.lens.height}"
        return f"Camera({size}, at {shown[0]}, looking along {shown[1]})"

    @classmethod
    def look_at(
        cls, eye: npt.ArrayLike, target: npt.ArrayLike, up: npt.ArrayLike, lens: Lens
    ) -> Self:
        """Create a camera that looks at a point.

        Args:
            eye: Camera position (3,) in scene coordinates.
            target: Point (3,) on the viewing axis in scene coordinates.
            up: Up direction (3,) of any length.
            lens: Camera intrinsics.

        Returns:
            Camera at `eye` that looks at `target`.

        Raises:
            InputError: If `eye` equals `target`, or the viewing axis is parallel to `up`.

        Examples:
            >>> lens = nerfmac.Lens.from_fov(0.7, width=640, height=480)
            >>> nerfmac.Camera.look_at((2.0, 0.5, 1.0), (0.5, 0.5, 0.5), (0, 0, 1), lens)
            Camera(640x480, at (2.00, 0.50, 1.00), looking along (-0.95, 0.00, -0.32))
        """
        eye, target, up = (np.asarray(each, np.float64) for each in (eye, target, up))
        backwards = _unit(eye - target, f"eye and target are both {eye.tolist()}")
        right = _unit(np.cross(up, backwards), f"up {up.tolist()} is along the line of sight")
        pose = np.stack([right, np.cross(backwards, right), backwards, eye], axis=1)
        return cls(lens, pose.astype(np.float32))


def _unit(vector: Float64Array, complaint: str) -> Float64Array:
    length = float(np.linalg.norm(vector))
    if not length > 1e-9:
        raise InputError(f"{complaint}: no camera can have this orientation")
    return vector / length


def angle_between(one: Camera, other: Camera) -> float:
    """Return the angle between the viewing axes of two cameras in degrees."""
    cosine = one.pose[:, 2] @ other.pose[:, 2]
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def nearest_to_axes(eyes: Float64Array, axes: Float64Array) -> Float64Array | None:
    """Return the point (3,) with the smallest sum of squared distances to n lines, or None if the
    lines are parallel. `eyes` (n, 3) contains a point on each line, and `axes` (n, 3) contains the
    unit directions of the lines."""
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    if np.linalg.eigvalsh(across.mean(0))[0] < PARALLEL:
        return None
    return np.linalg.solve(across.sum(0), np.einsum("nij,nj->i", across, eyes))


def in_image(
    points: Float64Array, pose: Float64Array, tangents: tuple[float, float]
) -> tuple[Float64Array, BoolArray]:
    """Return the image positions (n, 2) of points (n, 3), where -1 and 1 are the image borders and
    y points up, and whether each point (n,) is inside the image, ignoring distortion and occlusion.
    The camera has the camera-to-world `pose` (3, 4) and the `tangents` of its lens."""
    x, y, z = ((points - pose[:, 3]) @ pose[:, :3]).T
    depth = np.maximum(-z, 1e-12)
    position = np.stack([x, y], axis=1) / (depth[:, None] * tangents)
    return position, (z < 0) & (np.abs(position) < 1).all(axis=1)


@dataclass(frozen=True, eq=False)
class Cameras:
    """Cameras of n views, stacked in device arrays. The image sizes of the views may differ.

    Attributes:
        intrinsics: fl_x, fl_y, cx, cy in pixels, float32 (n, 4).
        distortion: float32 (n, 7). The columns are k1, k2, k3, k4, p1, p2, and a flag that is 1 for
            a fisheye camera and 0 for other cameras.
        poses: Camera-to-scene poses, float32 (n, 3, 4).
        places: Alias table for drawing pixels, int32 (n, 5); see `pixel_places`.
        sizes: Width and height of each view, in pixels.
        is_distorted: Whether any camera has lens distortion. The value is a Python bool, so that
            compiled functions can branch on it and skip undistortion for pinhole cameras.
        is_fisheye: Whether any camera is a fisheye camera. The value is a Python bool, so that
            compiled functions can branch on it.
    """

    intrinsics: mx.array
    distortion: mx.array
    poses: mx.array
    places: mx.array
    sizes: tuple[tuple[int, int], ...]
    is_distorted: bool
    is_fisheye: bool

    def __post_init__(self) -> None:
        count = len(self)
        checks.shape("intrinsics", self.intrinsics, (count, 4))
        checks.shape("distortion", self.distortion, (count, 7))
        checks.shape("poses", self.poses, (count, 3, 4))
        checks.shape("places", self.places, (count, len(COLUMNS)))
        for name in ("intrinsics", "distortion", "poses"):
            checks.dtype(name, getattr(self, name), mx.float32)

    @classmethod
    def stack(cls, cameras: Sequence[Camera]) -> Self:
        """Stack single cameras into `Cameras`."""
        if not cameras:
            raise InputError("there are no cameras to stack; pass at least one camera")
        lenses = [camera.lens for camera in cameras]
        sizes = tuple(lens.size for lens in lenses)
        return cls(
            intrinsics=mx.array([[lens.fl_x, lens.fl_y, lens.cx, lens.cy] for lens in lenses]),
            distortion=mx.array([[*lens.distortion, float(lens.is_fisheye)] for lens in lenses]),
            poses=mx.array(np.stack([camera.pose for camera in cameras])),
            places=mx.array(pixel_places(sizes)),
            sizes=sizes,
            is_distorted=any(lens.is_distorted for lens in lenses),
            is_fisheye=any(lens.is_fisheye for lens in lenses),
        )

    def __repr__(self) -> str:
        bent = ", distorted" if self.is_distorted else ""
        return f"Cameras({len(self)} of {shown_sizes(self.sizes)}{bent})"

    def __len__(self) -> int:
        return self.intrinsics.shape[0]

    @property
    def pixels(self) -> int:
        """Total number of pixels in all views."""
        return sum(width * height for width, height in self.sizes)

    def pixels_per_unit(self) -> float:
        """Return the resolution of the images at the scene center, in pixels per scene unit: the
        median over the views."""
        away = mx.linalg.norm(self.poses[:, :, 3] - SCENE_CENTER, axis=1)
        return float(np.median(np.array(self.intrinsics[:, 0] / mx.maximum(away, 1e-6))))

    def __getitem__(self, index: int) -> Camera:
        """Return the camera of view `index` as a `Camera`. Indexing waits until the device has
        computed the arrays."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no camera {index}; the number of cameras is {len(self)}")
        intrinsics = [float(number) for number in np.array(self.intrinsics[index])]
        *distortion, fisheye = (float(number) for number in np.array(self.distortion[index]))
        width, height = self.sizes[index]
        lens = Lens(width, height, *intrinsics, *distortion, is_fisheye=bool(fisheye))
        return Camera(lens, np.array(self.poses[index]))


def shown_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """Return a short description of image sizes, such as '640x480 and 2 more' for three sizes."""
    different = list(dict.fromkeys(sizes))
    shown = f"{different[0][0]}x{different[0][1]}"
    return shown if len(different) == 1 else f"{shown} and {len(different) - 1} more"


def pixel_places(sizes: Sequence[tuple[int, int]]) -> Int32Array:
    """Return the alias table for drawing pixels uniformly from views with these widths and heights.

    A draw selects a view with a probability proportional to its number of pixels (alias method,
    Walker 1977; table by Vose 1991), and then one of its pixels uniformly.

    Returns:
        int32 array (n, 5) with one row per view and these columns:

        - `first`: index of the view's first pixel in the concatenated pixels of all views, in
          row-major order. The index overflows if there are 2^31 pixels or more.
        - `height` and `width`: size of the view in pixels.
        - `kept` and `other`: entry of the alias table. A draw first selects a row uniformly. The
          draw then selects the row's view with the probability `kept` / `FRACTION_UNITS`, and
          otherwise the view with the index `other`.
    """
    counts = np.array([width * height for width, height in sizes], np.float64)
    first = np.cumsum([0, *counts[:-1]]) % 2**31
    share = counts / counts.mean()
    other = np.arange(len(counts))
    kept = np.ones(len(counts))
    small, large = list(np.flatnonzero(share < 1.0)), list(np.flatnonzero(share > 1.0))
    while small and large:
        view, giver = small.pop(), large[-1]
        kept[view], other[view] = share[view], giver
        share[giver] -= 1.0 - share[view]
        if share[giver] < 1.0:
            small.append(large.pop())
    widths, heights = np.array(sizes).T
    columns = [first, heights, widths, np.rint(kept * FRACTION_UNITS), other]
    return np.stack(columns, axis=1).astype(np.int32)
