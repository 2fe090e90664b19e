"""Drawing pixels: the color of each ray is the color of the pixel that it passes through."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Lens
from nerfmac.geometry import Camera, Cameras, rays_through
from nerfmac.ops.draw_pixels import choose_pixels, draw_pixels
from tests.app.scenes.scene_files import HEIGHT, WIDTH, pixels

COUNT = 3000
VIEWS = 4


def cameras(**distortion: float) -> Cameras:
    lens = Lens(WIDTH, HEIGHT, 30.0, 28.0, 11.0, 8.5, **distortion)
    eyes = [(1.0 + view, 2.0 - view, 0.5 + 0.1 * view) for view in range(VIEWS)]
    return Cameras.stack([Camera.look_at(eye, (0, 0, 0), (0, 0, 1), lens) for eye in eyes])


def images(channels: int) -> mx.array:
    return mx.array(np.concatenate([listed(index, channels) for index in range(VIEWS)]))


def listed(index: int, channels: int, size: tuple[int, int] = (WIDTH, HEIGHT)) -> np.ndarray:
    return pixels(index, channels, *size).reshape(-1, channels)


def fractions(key: int = 0) -> mx.array:
    return mx.random.uniform(shape=(3, COUNT), key=mx.random.key(key))


def drawn(channels: int, key: int = 0, compiled: bool = True) -> list[np.ndarray]:
    stack, views = images(channels), cameras()

    def draw(drawn):
        return draw_pixels(stack, views, choose_pixels(views, drawn))

    rays, *others = (mx.compile(draw) if compiled else draw)(fractions(key))
    return [np.array(each) for each in (*rays[:2], *others)]


def told_from(color: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, row and column that `scene_files.pixels` wrote into a color."""
    values = np.rint(color[:, :3].astype(np.float64) * 255).astype(int)
    return values[:, 2] // 3, values[:, 1] // 7, values[:, 0] // 5


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_color_is_that_of_the_pixel_its_ray_goes_through(channels, compiled):
    origin, direction, color, got_alpha, view_of = drawn(channels, compiled=compiled)
    assert (color.shape, got_alpha.shape) == ((COUNT, 3), (COUNT, 1))
    assert color.dtype == np.float32
    view, row, column = told_from(color)
    np.testing.assert_array_equal(view_of, view)
    poses = np.array(cameras().poses).astype(np.float64)[view]
    np.testing.assert_array_equal(origin, np.array(cameras().poses)[view, :, 3])
    seen = np.einsum("rji,rj->ri", poses[:, :, :3], direction)
    x = 30.0 * seen[:, 0] / -seen[:, 2] + 11.0
    y = 28.0 * -seen[:, 1] / -seen[:, 2] + 8.5
    np.testing.assert_allclose(np.stack([x, y], -1), np.stack([column, row], -1) + 0.5, atol=1e-4)
    alpha = (255 - column - row) / 255 if channels == 4 else np.ones(COUNT)
    np.testing.assert_allclose(got_alpha[:, 0], alpha, atol=1e-6)


def test_straight_alpha_leaves_colors_alone():
    opaque, clear = images(4), np.array(images(4))
    clear[..., 3] = 0
    index = choose_pixels(cameras(), fractions())
    first = draw_pixels(opaque, cameras(), index)
    second = draw_pixels(mx.array(clear), cameras(), index)
    assert float(first.color.max()) > 0.4
    assert mx.array_equal(first.color, second.color)
    assert not second.alpha.any()


def test_fractions_at_an_axis_ends_choose_its_first_and_last_pixel():
    below_one = float(np.nextafter(np.float32(1), np.float32(0)))
    ends = mx.array([[0.0, below_one]] * 3)
    color = np.array(draw_pixels(images(3), cameras(), choose_pixels(cameras(), ends)).color)
    first, last = zip(*told_from(color), strict=True)
    assert (first, last) == ((0, 0, 0), (VIEWS - 1, HEIGHT - 1, WIDTH - 1))


def test_every_pixel_of_every_image_is_as_likely():
    colors = [drawn(3, key=key)[2] for key in range(10)]
    view, row, column = told_from(np.concatenate(colors))
    counts = np.zeros((VIEWS, HEIGHT, WIDTH))
    np.add.at(counts, (view, row, column), 1)
    mean = counts.mean()  # about 20 draws a pixel
    for axis in ((1, 2), (0, 2), (0, 1)):
        marginal = counts.mean(axis=axis) / mean
        sigma = (marginal.size / (10 * COUNT)) ** 0.5
        assert np.abs(marginal - 1).max() < 5 * sigma
    chi_square = ((counts - mean) ** 2).sum() / mean / (counts.size - 1)
    assert abs(chi_square - 1) < 5 * (2 / counts.size) ** 0.5, "axes are drawn independently"


SIZES = ((5, 3), (24, 16), (16, 24), (2, 9), (24, 16), (7, 30))


def mixed(**options) -> Cameras:
    """Views of several sizes; one of them has a fisheye lens."""
    found = []
    for view, (width, height) in enumerate(SIZES):
        lens = Lens(width, height, 30.0, 28.0, 0.4 * width, 0.6 * height, 0.05, **options)
        lens = replace(lens, is_fisheye=view == 2)
        found.append(Camera.look_at((1.0 + view, 2.0, 0.5), (0, 0, 0), (0, 0, 1), lens))
    return Cameras.stack(found)


def test_views_of_several_sizes_have_their_own_rays_and_all_pixels_are_as_likely():
    cameras, count = mixed(), 80_000
    given = mx.array(np.concatenate([listed(i, 3, size) for i, size in enumerate(SIZES)]))
    chosen = mx.random.uniform(shape=(3, count), key=mx.random.key(5))
    index = choose_pixels(cameras, chosen)
    rays, color, _, view_of = draw_pixels(given, cameras, index)
    view, row, column = told_from(np.array(color))
    np.testing.assert_array_equal(np.array(view_of), view)
    place = mx.array(np.stack([column, row], axis=-1).astype(np.float32) + 0.5)
    want = rays_through(cameras, mx.array(view.astype(np.int32)), place)
    np.testing.assert_allclose(np.array(rays.origin), np.array(want.origin), atol=1e-6)
    np.testing.assert_allclose(np.array(rays.direction), np.array(want.direction), atol=2e-6)
    first = np.cumsum([0, *(width * height for width, height in SIZES)])
    width = np.array(SIZES)[view, 0]
    np.testing.assert_array_equal(np.array(index), first[view] + row * width + column)
    counts = np.bincount(np.array(index), minlength=first[-1])
    assert len(counts) == first[-1]
    mean = count / len(counts)
    chi_square = ((counts - mean) ** 2).sum() / mean / (len(counts) - 1)
    assert abs(chi_square - 1) < 5 * (2 / len(counts)) ** 0.5


def test_the_last_fraction_chooses_a_pixel_of_the_images():
    below_one = float(np.nextafter(np.float32(1), np.float32(0)))
    given = mx.array(np.concatenate([listed(i, 3, size) for i, size in enumerate(SIZES)]))
    index = choose_pixels(mixed(), mx.array([[0.0, below_one]] * 3))
    color = np.array(draw_pixels(given, mixed(), index).color)
    for view, row, column in zip(*told_from(color), strict=True):
        width, height = SIZES[view]
        assert (row, column) in ((0, 0), (height - 1, width - 1))
