"""The page's shader agrees with the reference: features, cells, samples, images."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac import Camera, Lens, Rays, Rendered, Samples
from nerfmac.app.export import scene_page
from nerfmac.backend import kernels_disabled
from nerfmac.geometry.color import srgb_to_linear
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import cell_of, is_occupied
from nerfmac.rendering.metrics import psnr
from tests.app.export.scene_page.fields import CASES

ROUNDOFF = 2.0**-24
POINTS = 300
BACKGROUND = 0.2, 0.5, 0.9
SEEN = """(word) => { const { device, inputs } = document.body.nerfmac.flight.screen.tracer;
device.queue.writeBuffer(inputs[6], 0, new Uint32Array(inputs[6].size / 4).fill(word)); }"""


@pytest.fixture(params=CASES, scope="module")
def case(request, case_of):
    return case_of(request.param)


def as_written(run) -> dict[str, mx.array]:
    """Return the parameters as the page has them."""
    field = scene_page.TracedField.of(run, run.model.sampler.occupied(run.state.sampling))
    levels = run.model.field.encoding.levels
    rounded = {
        name: mx.array(scene_page.to_halves(np.array(values)).astype(np.float32))
        for name, values in run.state.average.items()
    }
    codes = np.frombuffer(field.table, np.uint8).reshape(rounded["table"].shape)
    values = np.frombuffer(field.values, np.float16).reshape(-1, 256)
    level = np.repeat(np.arange(levels.levels), [entries for _, _, entries in levels.shapes])
    rounded["table"] = mx.array(values[level[:, None], codes].astype(np.float32))
    return rounded


@pytest.fixture(scope="module")
def rounded(case):
    return as_written(case[0])


@pytest.fixture(scope="module")
def probed(case):
    """Return points with directions (n, 2, 3), and the results of the shader."""
    run, tab = case
    random = np.random.default_rng(3)
    side = run.scene.extent
    points = 0.5 + side * random.uniform(-0.5, 0.5, (POINTS, 3))
    points[::5] = 0.5 + side / 2.3 * random.uniform(-0.5, 0.5, (len(points[::5]), 3))
    directions = random.normal(size=(POINTS, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    both = np.stack([points, directions], axis=1).astype(np.float32)
    return both, tab.probe(both, run.model.field.encoding.outputs)


def test_the_features_are_the_references(case, rounded, probed):
    encoding, (points, found) = case[0].model.field.encoding, probed
    with kernels_disabled():
        position = mx.array(points[:, 0])
        want = hash_encode(position, rounded["table"], encoding.levels)
    unit = encoding.bounds.to_unit(position)
    assert_matches(found[:, -9:-6], unit, rel=4 * ROUNDOFF, name="unit coordinates")
    # A position is known to a roundoff of its size, in cells of the finest level.
    finest = max(encoding.levels.scales)
    assert_matches(found[:, :-10], want, rel=4 * finest * ROUNDOFF, name="features")
    assert np.ptp(found[:, :-10], axis=0).min() > 0.1, "every feature varies"


def test_density_and_color_are_the_references(case, rounded, probed):
    run, (points, found) = case[0], probed
    position, direction = mx.array(points[:, 0]), mx.array(points[:, 1])
    ray, one = mx.arange(POINTS, dtype=mx.int32), mx.ones(POINTS)
    starts = mx.arange(POINTS + 1, dtype=mx.int32)
    samples = Samples(position, one, one, ray, starts, mx.ones(POINTS, mx.int32))
    with kernels_disabled():
        rays = Rays(position - direction, direction).complete
        density, color, _ = run.model.field(rounded, samples, rays)
    finest = max(run.model.field.encoding.levels.scales)
    rel = 64 * finest * ROUNDOFF
    assert_matches(np.log(found[:, -6]), mx.log(density), rel=rel, name="log density")
    assert_matches(found[:, -5:-2], color, rel=rel, name="color")
    assert np.ptp(found[:, -5:-2], axis=0).min() > 0.1, "every channel varies"


def test_cells_their_bits_and_what_photos_see_are_the_references(case, probed):
    run, (points, found) = case[0], probed
    geometry, bits = run.model.sampler.occupied(run.state.sampling)
    position = mx.array(points[:, 0])
    assert np.array_equal(found[:, -2], np.array(cell_of(position, geometry)))
    occupied = np.array(is_occupied(position, bits, geometry))
    assert np.array_equal(found[:, -1].astype(bool), occupied)
    assert 0.05 < occupied.mean() < 0.95
    # What photos see is interpolated between the corners of coarse cells.
    cascade = (found[:, -2] // geometry.resolution**3).astype(int)
    assert len(np.unique(cascade)) == geometry.bounds.cascades, "all cascades were looked at"
    words = scene_page.seen_corners(run.cameras, geometry.bounds.cascades)
    part, cell = np.modf(
        scene_page.SEEN_CELLS * ((points[:, 0] - 0.5) / 2.0 ** cascade[:, None] + 0.5)
    )
    levels = words[cascade, *cell.astype(int).T[::-1]][:, None] >> 4 * np.arange(8) & 15
    is_far = np.array([[corner & 1, corner & 2, corner & 4] for corner in range(8)], bool)
    shares = np.where(is_far, part[:, None], 1.0 - part[:, None]).prod(axis=2)
    want = (shares * levels).sum(axis=1) / 15.0
    assert_matches(found[:, -10], want, rel=1e-3, name="part that photos see")
    assert want.min() < 0.1 < 0.9 < want.max(), "photos see some of it"


def cameras(extent: float) -> list[Camera]:
    """Three views, from outside, from within and along an axis; pixels are not square."""
    lens = Lens(30, 20, 28.0, 23.0, 14.0, 11.0)
    far, up = 0.9 * extent + 0.6, (0.1, -0.2, 1.0)
    return [
        Camera.look_at((0.5 + far, 0.2, 0.9), (0.55, 0.5, 0.4), up, lens),
        Camera.look_at((0.62, 0.41, 0.7), (0.2, 0.6, 0.5), up, lens),
        Camera.look_at((0.47, 0.53 - far, 0.47), (0.47, 0.53, 0.47), (0.0, 0.0, 1.0), lens),
    ]


def seen(run, camera: Camera) -> Rendered:
    """Render the field of the page with the reference."""
    state = replace(run.state, average=as_written(run))
    with kernels_disabled():
        return run.model.renderer(state).render(camera, BACKGROUND)


@pytest.mark.parametrize("view", range(3))
def test_images_are_the_references(case, view):
    run, tab = case
    tab.run(SEEN, -1)  # The reference does not fade.
    camera = cameras(run.scene.extent)[view]
    sums, depths = tab.image(camera)
    want = seen(run, camera)
    assert (sums[..., 3] == 1).all()
    difference = np.abs(sums[..., :3] - np.array(srgb_to_linear(mx.array(want.color))))
    # Where rounding moves a sample across a cell's face it appears or goes, in a few pixels.
    assert np.median(difference) < 1e-5
    assert np.quantile(difference, 0.98) < 2e-3
    near = np.abs(depths - want.depth) < 0.02 * want.depth + 1e-4
    assert near.mean() > 0.98
    assert np.ptp(want.color, axis=(0, 1)).min() > 0.03
    tab.run(SEEN, 0)
    assert np.ptp(tab.image(camera)[0], axis=(0, 1)).max() < 1e-6, "photos see nothing"


def test_samples_of_a_pixel_are_averaged_in_linear_light_strip_by_strip(case_of):
    run, tab = case_of("hashed, one cascade")
    camera, offsets = cameras(1.0)[1], ((0.5, 0.5), (0.1, 0.8), (0.9, 0.3))
    tab.run(SEEN, -1)
    sums, _ = tab.image(camera, offsets, strips=16)
    lens = camera.lens
    parts = []
    for x, y in offsets:
        moved = replace(lens, cx=lens.cx + 0.5 - x, cy=lens.cy + 0.5 - y)
        image = seen(run, Camera(moved, camera.pose)).color
        parts.append(np.array(srgb_to_linear(mx.array(image))))
    assert (sums[..., 3] == 3).all()
    assert psnr(sums[..., :3] / 3, np.mean(parts, axis=0)) > 60
    assert psnr(sums[..., :3] / 3, parts[0]) < 45, "the samples differ"


def test_a_features_code_is_that_of_the_nearest_value():
    features = np.random.default_rng(2).normal(size=(500, 3)).astype(np.float32) ** 3
    codes, values = scene_page.quantized(features)
    listed = values[:255].astype(np.float32)
    assert codes.shape == features.shape
    assert np.array_equal(codes, np.abs(features[..., None] - listed).argmin(axis=-1))
    assert len(np.unique(codes)) > 100
    nothing, _ = scene_page.quantized(np.zeros((4, 2), np.float32))
    assert (values[127], np.ptp(nothing)) == (0, 0)
