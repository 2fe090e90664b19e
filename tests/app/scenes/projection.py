"""Where a camera sees a point, in float64 and written apart from the package's own formulas."""

import mlx.core as mx
import numpy as np

from nerfmac.app.scenes import Scene
from nerfmac.geometry import Cameras, rays_through


def project(camera, point: np.ndarray) -> np.ndarray:
    """The pixel position (2,) of a scene position (3,)."""
    lens, pose = camera.lens, camera.pose.astype(np.float64)
    x, y, z = np.linalg.inv(pose[:, :3]) @ (point - pose[:, 3])
    if lens.is_fisheye:
        away = np.hypot(x, y)
        angle = np.arctan2(away, -z)
        ks = lens.k1, lens.k2, lens.k3, lens.k4
        bent = angle * (1 + sum(k * angle ** (2 * i) for i, k in enumerate(ks, start=1)))
        return np.array(
            [lens.fl_x * bent * x / away + lens.cx, lens.cy - lens.fl_y * bent * y / away]
        )
    x, y = x / -z, -y / -z
    square = x * x + y * y
    radial = 1 + sum(
        k * square**i for i, k in enumerate((lens.k1, lens.k2, lens.k3, lens.k4), start=1)
    )
    across = x * radial + 2 * lens.p1 * x * y + lens.p2 * (square + 2 * x * x)
    down = y * radial + lens.p1 * (square + 2 * y * y) + 2 * lens.p2 * x * y
    return np.array([lens.fl_x * across + lens.cx, lens.fl_y * down + lens.cy])


def turn_between(one: Scene, other: Scene) -> np.ndarray:
    """The rotation (3, 3) from one scene to the other, by the first camera of both."""
    first, second = (each.splits["train"][0].camera.pose[:, :3] for each in (one, other))
    return second.astype(np.float64) @ first.astype(np.float64).T


def assert_same_pixels(one: Scene, other: Scene, *, within: float = 0.01) -> None:
    """Points of one scene are seen at the same pixels in the other, and the pixels see the points.

    The scenes may be turned about their common center.
    """
    turn = turn_between(one, other)
    frames = list(zip(one.splits["train"], other.splits["train"], strict=True))
    for point in np.array([[0.5, 0.5, 0.5], [0.63, 0.41, 0.55], [0.38, 0.57, 0.62]]):
        there = 0.5 + turn @ (point - 0.5)
        for first, second in frames:
            assert first.name.rsplit("/")[-1] == second.name.rsplit("/")[-1]
            pixel = project(first.camera, point)
            np.testing.assert_allclose(project(second.camera, there), pixel, atol=within)
            miss, focal = _miss(second.camera, pixel, there), second.camera.lens.fl_x
            assert miss * focal < within


def _miss(camera, pixel: np.ndarray, point: np.ndarray) -> float:
    """Return the angle in radians between the ray through `pixel` and the direction to `point`."""
    cameras = Cameras.stack([camera])
    given = mx.array(pixel[None].astype(np.float32))
    ray = rays_through(cameras, mx.array([0], mx.int32), given)
    toward = point - np.array(ray.origin[0], np.float64)
    toward /= np.linalg.norm(toward)
    return float(np.linalg.norm(np.cross(np.array(ray.direction[0], np.float64), toward)))
