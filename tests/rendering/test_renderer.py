"""Images of a field known in closed form, against rays integrated in NumPy's float64."""

from dataclasses import replace
from functools import partial
from math import sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac import Bounds, Camera, FieldOutput, InputError
from nerfmac.common.constants import RENDER_STOP_TRANSMITTANCE as STOP
from nerfmac.geometry.rays import Rays, camera_rays
from nerfmac.ops.composite import composite
from nerfmac.ops.march import MarchGeometry, Occupied, march
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.rendering.batches import SampleBatches
from nerfmac.rendering.renderer import Renderer, shade
from tests.app.viewer.analytic import BELOW, CELLS, CUBE, FRONT, LENS, SIDE
from tests.bricks import in_bricks
from tests.pinhole import pixel_rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SCENE = MarchGeometry(Bounds(2.0), CELLS, 0.1, sqrt(3) / 256, 1 / 256)
BACKGROUND = (0.1, 0.6, 0.9)
VIEWS = {"front": FRONT, "side": SIDE, "below": BELOW}


class Blob:
    """A soft ellipsoid as an `EncodedField`, redder to the right; `numpy` is it in float64."""

    center = (0.55, 0.4, 0.6)
    radii = (0.35, 0.2, 0.15)
    peak = 40.0
    extras = {}  # noqa: RUF012 - none

    def __call__(self, parameters, samples, rays):
        position = samples.position
        place = (position - mx.array(self.center)) / mx.array(self.radii)
        inside = mx.maximum(1.0 - mx.square(place).sum(axis=1), 0.0)
        sideways = rays.direction[:, 0][samples.ray]
        color = mx.stack([position[:, 0], position[:, 1], 0.5 + 0.4 * sideways], axis=1)
        return FieldOutput(parameters["peak"] * inside * inside, color * parameters["tint"])

    @property
    def parameters(self) -> dict[str, mx.array]:
        return {"peak": mx.array(self.peak), "tint": mx.array([1.0, 0.9, 0.8])}

    def numpy(self, position: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = (position - self.center) / self.radii
        inside = np.maximum(1.0 - (place**2).sum(axis=-1), 0.0)
        sideways = np.broadcast_to(0.5 + 0.4 * direction[..., 0], position.shape[:-1])
        color = np.stack([position[..., 0], position[..., 1], sideways], axis=-1)
        return self.peak * inside**2, color * [1.0, 0.9, 0.8]


class Box:
    """A hard, evenly colored box."""

    parameters: dict[str, mx.array] = {}  # noqa: RUF012 - none
    extras = {}  # noqa: RUF012 - none

    def __init__(self, low, high, color=(0.9, 0.3, 0.1), density=60.0) -> None:
        self.low, self.high, self.shade, self.thickness = low, high, color, density

    def __call__(self, _, samples, rays):
        position = samples.position
        inside = (position > mx.array(self.low)) & (position < mx.array(self.high))
        density = self.thickness * mx.all(inside, axis=1).astype(mx.float32)
        return FieldOutput(density, mx.broadcast_to(mx.array(self.shade), position.shape))


def full(geometry: MarchGeometry) -> mx.array:
    return mx.full((geometry.cells // 32,), 2**32 - 1, mx.uint32)


def image(field, camera=VIEWS["front"], geometry=CUBE, *, bits=None, slots=4096):
    bits = full(geometry) if bits is None else bits
    return renderer(field, geometry, bits, slots).render(camera, BACKGROUND)


def renderer(field, geometry=CUBE, bits=None, slots=4096):
    bits = full(geometry) if bits is None else bits
    shaded = partial(shade, field, field.parameters)
    return Renderer(SampleBatches(shaded, Occupied(geometry, bits), slots))


def integrated(field: Blob, camera: Camera) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Color over the background, opacity and depth, in 3000 steps of a thousandth."""
    origin, direction = pixel_rays(camera)
    light = np.ones(direction.shape[:2])
    color, mean, median = np.zeros((*light.shape, 3)), *np.zeros((2, *light.shape))
    for distance in 0.1 + 1e-3 * (np.arange(3000) + 0.5):
        density, seen = field.numpy(origin + distance * direction, direction)
        weight = light * -np.expm1(-density * 1e-3)
        color += weight[..., None] * seen
        mean += weight * distance
        light -= weight
        median += 1e-3 * (light > 0.5)
    color += light[..., None] * BACKGROUND
    mean /= np.maximum(1 - light, 1e-6)
    return color, 1 - light, np.where(light > 0.5, mean, 0.1005 + median)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_pixels_are_the_integrals_along_their_rays(view, geometry):
    got = image(Blob(), VIEWS[view], geometry)
    color, opacity, depth = integrated(Blob(), VIEWS[view])
    assert 0.05 < (opacity > 0.5).mean() < 0.7, "the blob should fill a part of the image"
    # Rays above the threshold are integrals; the middle rule, with steps of 1/85 at most, errs by
    # less than 3e-4 on this bell. The other rays are opaque, and the light behind them is left out.
    ended, is_clear = 1.0 - opacity < STOP - 3e-4, 1.0 - opacity > STOP + 3e-4
    assert (got.opacity[ended] == 1.0).all()
    assert np.abs(got.opacity - opacity)[is_clear].max() < 3e-4
    assert np.abs(got.color - color)[is_clear].max() < 3e-4
    assert np.abs(got.color - color).max() < STOP
    assert np.abs(got.depth - depth)[opacity > 0.2].max() < 7e-4
    color, got = (np.where(is_clear[..., None], image, BACKGROUND) for image in (color, got.color))
    assert_matches(got - BACKGROUND, color - BACKGROUND, rel=3e-4, name="color")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_opaque_boxs_depth_is_the_distance_of_its_face(axis):
    low, high = np.full(3, 0.2), np.array([0.7, 0.75, 0.65])
    eye = np.array([0.42, 0.48, 0.53])
    eye[axis] = 2.0
    camera = Camera.look_at(eye, eye - np.eye(3)[axis], np.roll(np.eye(3)[axis], 1), LENS)
    got = image(Box(low, high, density=1e4), camera)
    _, direction = pixel_rays(camera)
    distance = (high[axis] - eye[axis]) / direction[..., axis]
    place = eye + distance[..., None] * direction
    others = [i for i in range(3) if i != axis]
    on_face = ((place > low + 0.01) & (place < high - 0.01))[..., others].all(axis=-1)
    assert on_face.sum() > 30
    error = (got.depth - distance)[on_face]
    # The first sample behind the face represents half a step in front of it, and is at most a step
    # behind.
    assert np.abs(error).max() < 0.511 * CUBE.step
    assert abs(error.mean()) < 0.15 * CUBE.step
    assert (got.opacity[on_face] == 1.0).all()
    assert got.color[on_face] == pytest.approx(np.tile([0.9, 0.3, 0.1], (on_face.sum(), 1)))


def test_the_background_shows_where_nothing_is():
    got = image(Blob())
    empty = got.opacity == 0
    assert 0.1 < empty.mean() < 0.9
    assert (got.color[empty] == np.array(BACKGROUND, np.float32)).all()
    assert (got.depth[empty] == 0).all()


def test_an_unoccupied_grid_shows_the_background_alone():
    got = image(Blob(), bits=mx.zeros_like(full(CUBE)))
    assert (got.color == np.array(BACKGROUND, np.float32)).all()
    assert not got.opacity.any()
    assert not got.depth.any()


def test_leaving_out_empty_cells_changes_nothing():
    line = (np.arange(CELLS) + 0.5) / CELLS
    z, y, x = np.meshgrid(line, line, line, indexing="ij")
    place = (np.stack([x, y, z], axis=-1) - Blob.center) / np.array(Blob.radii)
    margin = sqrt(3) / 2 / CELLS / min(Blob.radii)
    touched = in_bricks(np.sqrt((place**2).sum(axis=-1))[None] < 1.0 + margin)
    assert 0.05 < touched.mean() < 0.5
    bits = pack_bits(mx.array(touched.astype(np.float32)), mx.array([0.5]))
    some, everything = image(Blob(), bits=bits), image(Blob())
    for name in ("color", "opacity", "depth"):
        assert_matches(getattr(some, name), getattr(everything, name), rel=2e-4, name=name)


@pytest.mark.parametrize("geometry", [CUBE, replace(CUBE, step=0.4)], ids=["fine", "coarse"])
@pytest.mark.parametrize("slots", [64, 300, 1000, 50_000])
def test_the_size_of_the_batches_does_not_matter(slots, geometry):
    want, got = (image(Blob(), geometry=geometry, slots=each) for each in (4096, slots))
    for name in ("color", "opacity", "depth"):
        # How a ray is cut decides which of the samples after its end at 1e-4 still count.
        error = np.abs(getattr(got, name) - getattr(want, name))
        assert error.max() < 3e-4, name


def test_any_rays_see_what_pixels_do():
    taken = renderer(Blob())
    want = taken.render(VIEWS["below"], BACKGROUND)
    some = np.random.default_rng(5).permutation(LENS.width * LENS.height)[:100]
    rays = camera_rays(VIEWS["below"]).at(mx.array(some))
    color, opacity, depth = map(np.array, taken.see(rays)[:3])
    assert np.ptp(opacity) > 0.9
    assert_matches(opacity, want.opacity.ravel()[some], rel=1e-6, name="opacity")
    assert_matches(depth, (want.depth * want.opacity).ravel()[some], rel=1e-5, name="depth")
    over = color + (1.0 - opacity[:, None]) * np.array(BACKGROUND)
    assert_matches(over, want.color.reshape(-1, 3)[some], rel=1e-6, name="color")
    with pytest.raises(InputError, match=r"directions .*\(100, 3\)"):
        taken.see(Rays(rays.origin, rays.direction[1:]))


def test_compositing_is_differentiable_in_the_fields_parameters():
    origin, direction = pixel_rays(VIEWS["below"])
    directions = mx.array(direction.reshape(-1, 3)[::3], mx.float32)
    origins = mx.broadcast_to(mx.array(origin, mx.float32), directions.shape)
    jitter = mx.random.uniform(shape=(len(directions),), key=mx.random.key(1))
    samples = march(origins, directions, jitter, Occupied(CUBE, full(CUBE)), 40_000)
    assert np.array(samples.fits).all()
    field = Blob()

    def loss(peak: float, tint: float) -> mx.array:
        parameters = {"peak": mx.array(peak), "tint": mx.array(tint) * mx.array([1.0, 0.9, 0.8])}
        output = field(parameters, samples, Rays(origins, directions))
        seen = composite(output.density, output.color, samples)
        return mx.square(seen.color).mean() + 0.1 * seen.weighted_depth.mean()

    got = mx.grad(loss, argnums=(0, 1))(mx.array(5.0), mx.array(0.7))
    want = [
        (loss(5.0 + 0.05, 0.7) - loss(5.0 - 0.05, 0.7)).item() / 0.1,
        (loss(5.0, 0.7 + 0.01) - loss(5.0, 0.7 - 0.01)).item() / 0.02,
    ]
    # Differences of float32 values divided by 0.01, and the neglected cubic term.
    assert [each.item() for each in got] == pytest.approx(want, rel=2e-3)
