"""Each part of the peer in PyTorch computes what nerfmac's own computes."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from bricks import in_bricks
from numerics import assert_matches
from ops.marching import GEOMETRIES, PLENTY, grid, packed, some_rays, words
from scene_factory import CONFIG

from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.common import NEVER_OCCUPIED
from nerfmac.config import override
from nerfmac.config.presets import PRESETS
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import HashGrid, encoding_of
from nerfmac.geometry import Bounds, Camera, Cameras, Lens, Samples, Viewpoints, Views, rays_through
from nerfmac.ops.composite import composite
from nerfmac.ops.hash_encode import hash_encode_reference
from nerfmac.ops.march import Occupied, march
from nerfmac.ops.spherical_harmonics import spherical_harmonics_reference
from nerfmac.ops.thin import thin
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install torch`")

from torch_peer.composite import is_reached, weights  # noqa: E402
from torch_peer.field import TorchField, spherical_harmonics  # noqa: E402
from torch_peer.march import Marcher  # noqa: E402
from torch_peer.occupancy import TorchOccupancy  # noqa: E402
from torch_peer.pixels import TorchPixels  # noqa: E402
from torch_peer.tests.torch_arrays import EPSILON, RANDOM, in_torch, parameters_of, uncompiled  # noqa: E402 - they import torch


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


@pytest.mark.parametrize("extent", [1.0, 2.5])
@pytest.mark.parametrize("preset", ["small", "tiny"])
def test_the_encoding_and_its_gradient_are_the_reference_s(preset, extent):
    config = PRESETS[preset]
    parameters = parameters_of(config, extent)
    field, levels = (
        TorchField(config, extent, parameters),
        HashGrid(config.grid, Bounds(extent)).levels,
    )
    assert any(map(levels.is_hashed, range(levels.levels)))
    assert not all(map(levels.is_hashed, range(levels.levels)))
    unit = RANDOM.uniform(0.0, 1.0, (500, 3)).astype(np.float32)
    unit[:2] = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    position = mx.array((unit - 0.5) * extent + 0.5)
    cotangent = RANDOM.standard_normal((500, config.grid.levels * config.grid.features))

    def encode(table):
        return hash_encode_reference(position, table, levels)

    (want,), (gradient,) = mx.vjp(
        encode, [mx.array(parameters["table"])], [mx.array(cotangent.astype(np.float32))]
    )
    got = field.encode(*in_torch([position]))
    assert_matches(got.detach().numpy(), want, rel=64 * EPSILON, name="encoding")
    got.backward(*in_torch([cotangent.astype(np.float32)]))
    assert_matches(field.table.grad.numpy(), gradient, rel=64 * EPSILON, name="gradient")


def test_spherical_harmonics_are_the_reference_s():
    direction = RANDOM.standard_normal((100, 3)).astype(np.float32)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    want = spherical_harmonics_reference(mx.array(direction))
    (got,) = map(spherical_harmonics, in_torch([direction]))
    assert_matches(got.numpy(), want, rel=16 * EPSILON, name="basis")


@pytest.mark.parametrize("name", GEOMETRIES)
def test_marching_takes_the_same_samples(name):
    geometry = GEOMETRIES[name]
    is_set = grid(geometry, 0.3)
    rays = some_rays(geometry, 150)
    # a ray along a face, one that misses the cube, and one that starts inside
    rays[0][:3] = [[-2.0, 0.5, 0.4], [9.0, 9.0, 9.0], [0.5, 0.5, 0.5]]
    rays[1][:3] = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]
    with kernels_disabled():
        want = march(*map(mx.array, rays), Occupied(geometry, packed(is_set)), PLENTY)
    marcher = Marcher(geometry, uncompiled)
    got = marcher(*in_torch(rays), torch.from_numpy(in_bricks(is_set)))
    used = int(np.array(want.ray_start)[-1])
    assert used > 1000
    np.testing.assert_array_equal(got.wanted, np.array(want.wanted))
    assert int(got.used) == used
    np.testing.assert_array_equal(got.ray, np.array(want.ray)[:used])
    # A width is the difference of two distances a hundred times as large.
    for part, factor in (("position", 64), ("distance", 64), ("width", 6400)):
        values = getattr(want, part)[:used]
        assert_matches(getattr(got, part).numpy(), values, rel=factor * EPSILON, name=part)


def test_compositing_its_gradient_and_where_light_ends_are_the_reference_s():
    counts = np.array([0, 1, 40, 0, 7, 300, 2], np.int32)
    ray_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    slots, used = 400, ray_start[-1]
    density = RANDOM.exponential(3.0, slots).astype(np.float32)
    density[60:64] = 1e4  # opaque: samples behind it are not reached
    width = RANDOM.uniform(0.01, 0.03, slots).astype(np.float32)
    place = np.full(slots, -1)
    place[:used] = np.concatenate([np.arange(count) for count in counts])
    color, distance = np.ones((slots, 3), np.float32), np.zeros(slots, np.float32)

    def opacity(density):
        packed = map(mx.array, (distance, width, np.zeros(slots, np.int32), ray_start, counts))
        samples = Samples(mx.zeros((slots, 3)), *packed)
        return composite(density, mx.array(color), samples).opacity

    cotangent = RANDOM.standard_normal(len(counts)).astype(np.float32)
    (want,), (gradient,) = mx.vjp(opacity, [mx.array(density)], [mx.array(cotangent)])
    packed = map(mx.array, (distance, width, np.zeros(slots, np.int32), ray_start, counts))
    samples = Samples(mx.zeros((slots, 3)), *packed)
    reached = np.array(thin(samples, mx.array(density), mx.zeros(len(counts)), slots, 0.0).wanted)
    assert 0 < reached[5] < 300
    (density,) = in_torch([density])
    ray = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    lit = is_reached(density, *in_torch([width, place]), 300)
    np.testing.assert_array_equal(torch.bincount(ray[lit[:used]], minlength=len(counts)), reached)
    density.requires_grad_()
    weight = weights(density, *in_torch([width, place]), 300)
    got = torch.zeros(len(counts)).index_add(0, ray, weight[:used])
    got.backward(*in_torch([cotangent]))
    assert_matches(got.detach().numpy(), want, rel=64 * EPSILON, name="opacity")
    assert_matches(density.grad.numpy(), gradient, rel=256 * EPSILON, name="gradient")


def test_density_and_its_gradient_are_nerfmac_s_where_the_exponential_is_clamped_too():
    random = np.random.default_rng(0)
    parameters = parameters_of(CONFIG, 1.0, random)
    parameters["density"] *= 3.0
    position = mx.array(random.uniform(0.0, 1.0, (500, 3)).astype(np.float32))
    ours = EncodedField(encoding_of(CONFIG, Bounds(1.0)), CONFIG.networks)
    arrays = {name: mx.array(values) for name, values in parameters.items()}
    with kernels_disabled():
        samples, rays = Viewpoints.of(None, 0.01, 0.0).through(position)
        logarithm = np.log(np.array(ours.density(arrays, samples, rays)))
        assert (np.abs(logarithm) < 13.0).any()
        assert (logarithm < -16.0).any()
        assert (logarithm > 14.999).any(), "some density is clamped"
        # So that small densities pull at the table as much as large ones.
        pull = np.exp(-logarithm.clip(-15.0, 15.0))

        def pulled(table):
            return (ours.density(arrays | {"table": table}, samples, rays) * mx.array(pull)).sum()

        gradient = mx.grad(pulled)(arrays["table"])
    field = TorchField(CONFIG, 1.0, parameters)
    density, _ = field.density(*in_torch([position]))
    (density * torch.from_numpy(pull)).sum().backward()
    got = np.log(density.detach().numpy())
    assert_matches(got, logarithm, rel=256 * EPSILON, name="logarithm")
    assert_matches(field.table.grad.numpy(), gradient, rel=2e3 * EPSILON, name="gradient")


def test_parameters_go_in_and_out_unchanged():
    parameters = parameters_of(CONFIG, 1.0)
    for name, values in TorchField(CONFIG, 1.0, parameters).export().items():
        np.testing.assert_array_equal(values, parameters[name])


@pytest.mark.parametrize("warmup", [True, False])
@pytest.mark.parametrize(("extent", "threshold"), [(1.0, 0.01), (2.5, 0.01), (2.5, 1.0)])
def test_the_occupancy_grid_follows_the_same_rule(extent, threshold, warmup):
    geometry = replace(GEOMETRIES["object"], bounds=Bounds(extent))
    changes = {
        "resolution": 16,
        "warmup_fraction": 1.0,
        "threshold": threshold,
        "visibility_patience": 3,
    }
    config = override(CONFIG, occupancy=changes).occupancy
    values = RANDOM.choice([0.0, 0.005, 0.02, 0.1], geometry.cells).astype(np.float32)
    dark = RANDOM.choice([0, 1, 2, 3, NEVER_OCCUPIED], geometry.cells).astype(np.int32)
    lit = RANDOM.random(geometry.cells) < 0.2

    def height(position):  # the same anywhere in a cell: where in it a point is drawn is random
        steps = np.floor((position[:, 2] - 0.5) * 16 / 4 + 100).astype(np.float32) % 5
        return steps * warmup  # afterwards, the choice of visited cells is random too

    ours = OccupancyGrid(config, geometry).update(
        Occupancy(mx.array(values), mx.array(dark), words(values > 0), mx.zeros(1, mx.int32)),
        lambda position: mx.array(height(np.array(position))),
        mx.array(lit),
        mx.random.key(1),
        warmup=warmup,
    )
    theirs = TorchOccupancy(config, geometry, torch.zeros(geometry.cells, dtype=torch.int32))
    theirs.values, theirs.dark, is_lit = in_torch([values, dark, lit])
    step = config.warmup_steps - warmup
    theirs.update(
        lambda position: torch.from_numpy(height(position.numpy())),
        is_lit,
        step,
        torch.Generator(),
    )
    assert_matches(theirs.values.numpy(), ours.values, rel=8 * EPSILON, name="values")
    np.testing.assert_array_equal(theirs.dark, np.array(ours.updates_since_visible))
    occupied = theirs.occupied.numpy()
    np.testing.assert_array_equal(np.array(words(occupied)), np.array(ours.bits))


def test_after_the_warm_up_half_of_the_cells_drawn_are_occupied():
    geometry, config = GEOMETRIES["object"], CONFIG.occupancy
    occupancy = TorchOccupancy(config, geometry, torch.zeros(geometry.cells, dtype=torch.int32))
    occupancy.occupied = torch.arange(geometry.cells) % 50 == 7
    cells = occupancy._choose(False, torch.Generator()).numpy()
    assert len(cells) == np.ceil(geometry.cells * config.fraction)
    fraction = np.mean(cells % 50 == 7)
    assert 0.5 <= fraction < 0.55
    occupancy.occupied[:] = False
    assert len(occupancy._choose(False, torch.Generator())) == len(cells) - len(cells) // 2


@pytest.mark.parametrize("size", [(20, 16), (9, 23)], ids=["one size", "two sizes"])
def test_pixels_are_drawn_with_their_own_rays_and_colors(size):
    lenses = [Lens(20, 16, 22.0, 24.0, 9.0, 8.5), Lens(*size, 30.0, 28.0, 10.0, 8.0, 0.1, -0.05)]
    eyes = [(2.0, 0.3, 0.4), (-0.5, 2.0, 0.9), (0.2, 0.1, -1.8)]
    cameras = Cameras.stack(
        [
            Camera.look_at(eye, (0.5, 0.5, 0.5), (0.1, 0.2, 1.0), lenses[index % 2])
            for index, eye in enumerate(eyes)
        ]
    )
    images = [
        np.stack([np.full((height, width), view), *np.indices((height, width))], axis=-1)
        for view, (width, height) in enumerate(cameras.sizes)
    ]
    listed = np.concatenate([image.reshape(-1, 3) for image in images]).astype(np.uint8)
    views = Views(mx.array(listed), cameras, ("a", "b", "c"))
    pixels = TorchPixels(views, torch.device("cpu"))
    origins, directions, colors = pixels.draw(20_000, torch.Generator().manual_seed(1))
    drawn = np.round(colors.numpy() * 255).astype(np.int32)
    assert (colors[:, 3] == 1.0).all()
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == cameras.pixels, "some pixel is never drawn"
    mean = counts.mean()
    chi_square = ((counts - mean) ** 2).sum() / mean / (len(counts) - 1)
    assert abs(chi_square - 1) < 5 * (2 / len(counts)) ** 0.5, "all are as likely"
    place = mx.array(drawn[:, [2, 1]].astype(np.float32) + 0.5)
    want = rays_through(cameras, mx.array(drawn[:, 0]), place)
    assert_matches(origins.numpy(), want.origin, rel=4 * EPSILON, name="origin")
    assert_matches(directions.numpy(), want.direction, rel=64 * EPSILON, name="direction")
