"""Pixels to rays, against projection written on its own in float64."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry import Camera, Cameras, Lens, camera_rays, panorama_rays, rays_through

FOX = Lens(
    540, 960, 687.76, 687.245, 277.279, 482.634, 0.0578421, -0.0805099, p1=-0.00098, p2=0.000156
)
LENSES = {
    "pinhole": Lens(640, 480, 500.0, 520.0, 300.0, 260.0),
    "fox": FOX,
    "strong": Lens(640, 480, 420.0, 400.0, 330.0, 225.0, -0.2, 0.05, -0.01, 0.002, 0.003, -0.004),
}
EYES = [((2.0, -1.0, 0.7), (0.4, 0.6, 0.5)), ((-0.5, 0.3, 2.5), (0.3, 0.2, 0.1))]


def project(camera: Camera, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (r, 2) and depths (r,) of scene points (r, 3): the forward model of a photo."""
    lens, pose = camera.lens, camera.pose.astype(np.float64)
    seen = np.linalg.solve(pose[:, :3], (point - pose[:, 3]).T)
    depth = -seen[2]
    x, y = seen[0] / depth, -seen[1] / depth
    r2 = x**2 + y**2
    radial = 1 + lens.k1 * r2 + lens.k2 * r2**2 + lens.k3 * r2**3 + lens.k4 * r2**4
    bent_x = x * radial + 2 * lens.p1 * x * y + lens.p2 * (r2 + 2 * x**2)
    bent_y = y * radial + lens.p1 * (r2 + 2 * y**2) + 2 * lens.p2 * x * y
    pixel = [lens.fl_x * bent_x + lens.cx, lens.fl_y * bent_y + lens.cy]
    return np.stack(pixel, axis=-1), depth


def some_views(lens: Lens) -> list[Camera]:
    return [Camera.look_at(eye, target, (0.1, 0.0, 1.0), lens) for eye, target in EYES]


@pytest.mark.parametrize("name", LENSES)
def test_the_ray_of_a_points_pixel_passes_through_the_point(name):
    lens, random = LENSES[name], np.random.default_rng(3)
    views = some_views(lens)
    cameras = Cameras.stack(views)
    for index, camera in enumerate(views):
        point = random.uniform(0.0, 1.0, (4000, 3))
        pixel, depth = project(camera, point)
        inside = (depth > 0.1) & (pixel > 0).all(1) & (pixel < [lens.width, lens.height]).all(1)
        assert inside.sum() > 500, "hardly a point is in the image"
        point, pixel = point[inside], pixel[inside]
        view = mx.full((len(pixel),), index, mx.int32)
        rays = rays_through(cameras, view, mx.array(pixel.astype(np.float32)))
        origin, direction = (np.array(each).astype(np.float64) for each in rays[:2])
        along = np.sum((point - origin) * direction, axis=-1)
        assert (along > 0).all()
        miss = np.linalg.norm(origin + along[:, None] * direction - point, axis=-1)
        assert miss.max() < 1e-5


@pytest.mark.parametrize("name", LENSES)
def test_directions_have_length_one_and_rays_start_at_the_camera(name):
    camera = some_views(LENSES[name].scaled(32, 24))[0]
    rays = camera_rays(camera)
    np.testing.assert_allclose(np.linalg.norm(np.array(rays.direction), axis=-1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(np.array(rays.origin), np.tile(camera.pose[:, 3], (32 * 24, 1)))


def test_right_in_the_image_is_x_down_is_minus_y_and_ahead_is_minus_z():
    camera = Camera(Lens(8, 6, 10.0, 10.0, 4.0, 3.0), np.eye(3, 4))
    view = mx.zeros((3,), mx.int32)
    pixel = mx.array([[4.0, 3.0], [14.0, 3.0], [4.0, 13.0]])
    direction = np.array(rays_through(Cameras.stack([camera]), view, pixel).direction)
    want = [[0, 0, -1], [0.5**0.5, 0, -(0.5**0.5)], [0, -(0.5**0.5), -(0.5**0.5)]]
    np.testing.assert_allclose(direction, want, atol=1e-6)


def test_camera_rays_go_row_by_row_through_pixel_centers():
    camera = some_views(Lens(5, 3, 4.0, 6.0, 2.0, 1.2, k1=0.05))[1]
    rays = camera_rays(camera)
    assert rays.direction.shape == (15, 3)
    centers = [[column + 0.5, row + 0.5] for row in range(3) for column in range(5)]
    point = np.array(rays.origin) + 2.0 * np.array(rays.direction)
    np.testing.assert_allclose(project(camera, point)[0], centers, atol=1e-5)


def test_each_ray_belongs_to_its_own_view():
    views = [some_views(LENSES["pinhole"])[0], some_views(LENSES["strong"])[1]]
    cameras = Cameras.stack(views)
    pixel = mx.array([[100.0, 50.0], [600.0, 400.0], [100.0, 50.0], [600.0, 400.0]])
    both = rays_through(cameras, mx.array([0, 1, 1, 0], mx.int32), pixel)
    for row, index in enumerate([0, 1, 1, 0]):
        alone = Cameras.stack([views[index]])
        single = rays_through(alone, mx.zeros((1,), mx.int32), pixel[row : row + 1])
        for got, want in zip(both[:2], single[:2], strict=True):
            np.testing.assert_allclose(np.array(got[row]), np.array(want[0]), atol=1e-6)


@pytest.mark.parametrize("handed_in", [False, True], ids=["captured", "handed in"])
def test_compiled_rays_are_the_same(handed_in):
    cameras = Cameras.stack(some_views(FOX))
    view = mx.array([0, 1, 1], mx.int32)
    pixel = mx.array([[0.5, 0.5], [539.5, 3.5], [200.0, 959.5]])

    def through(pixel, arrays):
        inside = replace(cameras, **arrays) if arrays else cameras
        return rays_through(inside, view, pixel)

    names = ("intrinsics", "distortion", "poses") if handed_in else ()
    compiled = mx.compile(through)(pixel, {name: getattr(cameras, name) for name in names})
    for got, want in zip(compiled, rays_through(cameras, view, pixel)[:4], strict=False):
        np.testing.assert_allclose(np.array(got), np.array(want), atol=1e-6)


@pytest.mark.parametrize(("cx", "cy"), [(8.0, 4.0), (11.0, 4.0), (8.0, 1.5), (5.0, 6.5)])
def test_a_panorama_is_shifted_by_the_principal_point(cx, cy):
    pose = np.eye(4)[:3]
    camera = Camera(Lens(16, 8, 10.0, 10.0, cx, cy), pose)
    direction = np.array(panorama_rays(camera).direction).reshape(8, 16, 3)
    row, column = 2, 13
    right = 2 * np.pi * ((column + 0.5 - cx) / 16)
    down = np.pi * ((row + 0.5 - cy) / 8)
    want = [np.cos(down) * np.sin(right), -np.sin(down), -np.cos(down) * np.cos(right)]
    np.testing.assert_allclose(direction[row, column], want, atol=1e-6)
