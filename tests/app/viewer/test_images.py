"""The viewer's images, of fields known in closed form and of an untrained one."""

from math import log

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, Camera, InputError, Model, choose_device
from nerfmac.app.viewer.images import CASCADE_COLORS, CELL_VARIATION, FACE_BRIGHTNESS, Images
from nerfmac.config import PRESETS, override
from nerfmac.config.rendering import DIAGNOSTICS, OUTPUTS, RenderOptions
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.march import Occupied, count_samples
from nerfmac.rendering.color_map import INFERNO, TURBO
from nerfmac.rendering.renderer import to_bytes
from tests.app.viewer.analytic import (
    BELOW,
    CUBE,
    FOCUS,
    FRONT,
    SCENE,
    SIDE,
    Boxes,
    Egg,
    RippledEgg,
    box_hits,
    known,
    on_map,
    state,
)
from tests.pinhole import pixel_rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SHOWN = (*OUTPUTS, *DIAGNOSTICS)
BACKGROUND = (0.1, 0.6, 0.9)
ORANGE, BLUE = (0.9, 0.5, 0.1), (0.1, 0.2, 0.7)
NEAR_BOX = ((0.25, 0.3125, 0.6), (0.5, 0.5625, 0.75), ORANGE)
FAR_BOX = ((0.45, 0.4, 0.15), (0.85, 0.85, 0.3), BLUE)


def drawn(field, output, camera=FRONT, *, geometry=CUBE, occupied=None, focus=FOCUS, **options):
    options = RenderOptions(output, **{"background": BACKGROUND, **options})
    return Images(known(field, geometry), state(geometry, occupied), options).draw(camera, focus)


@pytest.fixture(scope="module")
def untrained():
    """A model of a real field, and a state of it that is far from even."""
    choose_device("cpu")
    grid = {"log2_entries": 10}
    config = override(
        PRESETS["tiny"], grid=grid, march={"steps": 128}, occupancy={"resolution": 16}
    )
    model = Model(config, Bounds(1.7))
    geometry = model.sampler.geometry
    parameters = model.field.init(mx.random.key(3))
    parameters["table"] = mx.random.normal(parameters["table"].shape, key=mx.random.key(4)) * 3.0
    occupied = np.random.default_rng(6).random(geometry.cells) < 0.3
    return model, state(geometry, occupied, average=parameters)


def test_color_is_what_the_renderer_gives(untrained):
    model, now = untrained
    got = Images(model, now, RenderOptions("rgb", BACKGROUND)).draw(SIDE, FOCUS)
    want = model.renderer(now).render(SIDE, BACKGROUND)
    assert np.ptp(want.color) > 0.3
    assert (got.rgb == to_bytes(want.color)).all()
    assert (got.depth == want.depth).all()


@pytest.mark.parametrize("focus", [0.7, 1.4, 3.0])
def test_depth_runs_from_warm_to_cold_over_twice_the_distance_of_the_focus(focus):
    got = drawn(Boxes(NEAR_BOX, FAR_BOX), "depth", focus=focus)
    seen = got.depth > 0
    assert 0.05 < seen.mean() < 0.9
    assert np.ptp(got.depth[seen]) > 0.3
    nearness = np.clip(1.0 - got.depth / (2.0 * focus), 0.0, 1.0)
    want = on_map(np.polyval([6, -15, 10, 0, 0, 0], nearness), TURBO)[seen]
    assert np.abs(got.rgb[seen] / 255.0 - want).max() < 0.6 / 255
    assert (got.rgb[~seen] == to_bytes(np.array(BACKGROUND))).all()


def errors_of_normals(field, camera):
    """How far the normals in an image of an egg are off, where it is solid."""
    got = drawn(field, "normal", camera, background=(0.5, 0.5, 0.5))
    origin, direction = pixel_rays(camera)
    outwards = (origin + got.depth[..., None] * direction - Egg.center) / np.square(Egg.radii)
    outwards /= np.linalg.norm(outwards, axis=-1, keepdims=True)
    solid = drawn(field, "opacity", camera).rgb[..., 0] == 255
    assert solid.sum() > 30
    return np.abs(got.rgb / 127.5 - 1.0 - outwards)[solid]


def test_normals_point_out_of_an_ellipsoid_and_ripples_finer_than_a_cell_do_not_turn_them():
    error = errors_of_normals(Egg(), BELOW)
    assert error.max() < 0.08
    assert error.mean() < 0.015
    assert errors_of_normals(RippledEgg(), FRONT).mean() < 0.1


def test_opacity_is_gray(untrained):
    model, now = untrained
    got = Images(model, now, RenderOptions("opacity", BACKGROUND)).draw(BELOW, FOCUS)
    opacity = model.renderer(now).render(BELOW).opacity
    assert 0.1 < opacity.mean() < 0.9
    assert (got.rgb == to_bytes(opacity)[..., None]).all()


def test_occupied_cells_are_blocks_shaded_by_the_face_that_is_seen():
    occupied = np.zeros((16, 16, 16), bool)
    occupied[9:13, 4:9, 2:5] = True  # z, y, x
    got = drawn(Boxes(), "occupancy", SIDE, occupied=occupied)
    origin, direction = pixel_rays(SIDE)
    low, high = np.array([2, 4, 9]) / 16, np.array([5, 9, 13]) / 16
    enter, leave, axis = box_hits(origin, direction, low, high)
    sure = leave - enter > 0.02
    assert got.depth[sure] == pytest.approx(enter[sure], abs=2e-5)
    assert (got.rgb[leave < enter] == to_bytes(np.array(BACKGROUND))).all()
    assert (got.depth[leave < enter] == 0).all()
    brightest = np.array(CASCADE_COLORS[0]) * np.array(FACE_BRIGHTNESS)[axis][..., None]
    brightness = (got.rgb / 255.0 / brightest)[sure]
    assert brightness.max() < 1.01
    assert brightness.min() > 1.0 - CELL_VARIATION - 0.01
    assert len(np.unique(axis[sure])) >= 2
    assert len(np.unique(np.round(brightness, 2))) > 4, "cells can be told apart"


@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_samples_are_counted_on_a_map_that_does_not_move(geometry):
    shape = (geometry.bounds.cascades, 16, 16, 16)
    occupied = np.random.default_rng(8).random(shape) < 0.02
    got = drawn(Boxes(), "samples", SIDE, geometry=geometry, occupied=occupied)
    rays = camera_rays(SIDE)
    bits = state(geometry, occupied).sampling["bits"]
    jitter = mx.full(rays.origin.shape[:1], 0.5)
    count = np.array(count_samples(*rays[:2], jitter, Occupied(geometry, bits))).reshape(
        got.depth.shape
    )
    assert len(np.unique(count)) > 10
    assert (count == 0).any()
    want = on_map(np.log(1.0 + count) / log(1.0 + geometry.most_intervals), INFERNO)
    want[count == 0] = BACKGROUND
    assert np.abs(got.rgb / 255.0 - want).max() < 0.6 / 255
    assert ((got.depth > 0) == (count > 0)).all()


@pytest.mark.parametrize("output", SHOWN)
def test_a_crop_lets_see_only_the_cells_of_the_box(untrained, output):
    model, now = untrained
    crop = ((0.3, 0.1, 0.4), (0.7, 0.45, 0.9))
    got = Images(model, now, RenderOptions(output, BACKGROUND, crop=crop)).draw(FRONT, FOCUS).depth
    everything = Images(model, now, RenderOptions(output, BACKGROUND)).draw(FRONT, FOCUS).depth
    origin, direction = pixel_rays(FRONT)
    low, high = np.floor(np.array(crop[0]) * 16) / 16, np.ceil(np.array(crop[1]) * 16) / 16
    enter, leave, _ = box_hits(origin, direction, low, high)
    seen = got > 0
    assert 0.05 < seen.mean() < (everything > 0).mean() - 0.1
    assert (leave > enter - 1e-5)[seen].all()
    assert (got > enter - 1e-4)[seen].all()
    assert (got < leave + 1e-4)[seen].all()


@pytest.mark.parametrize("output", SHOWN)
def test_strips_join_without_a_seam(untrained, output):
    model, now = untrained
    images = Images(model, now, RenderOptions(output, BACKGROUND, exposure=0.5))
    lens = SIDE.lens
    whole = images.draw(SIDE, FOCUS)
    strips = []
    for first, rows in ((0, 7), (7, 1), (8, 12)):
        strips.append(images.draw(Camera(lens.rows(first, rows), SIDE.pose), FOCUS))
    for name in ("rgb", "depth"):
        joined = np.concatenate([getattr(strip, name) for strip in strips])
        assert (joined == getattr(whole, name)).all(), name
    assert len(np.unique(whole.rgb.reshape(-1, 3), axis=0)) > 10


class Marked(Egg):
    """The egg with outputs of one, three, and four channels."""

    extras = {"height": 1, "axes": 3, "classes": 4}  # noqa: RUF012

    def __call__(self, parameters, samples, rays):
        x, y, z = (samples.position[:, axis : axis + 1] for axis in range(3))
        classes = mx.concatenate([0.0 * x, x < 0.55, x >= 0.55, 0.0 * x], axis=1)
        extras = {"height": z, "axes": mx.concatenate([x, y, z], axis=1) - 0.5, "classes": classes}
        return super().__call__(parameters, samples, rays)._replace(extras=extras)


def test_additional_outputs_have_colors():
    seen = drawn(Marked(), "rgb").rgb
    assert np.array_equal(seen, drawn(Egg(), "rgb").rgb)
    hit = np.array(drawn(Egg(), "opacity").rgb)[..., 0] > 250
    height, axes, classes = (drawn(Marked(), f"extra:{name}").rgb for name in Marked.extras)
    assert len(np.unique(height[hit], axis=0)) > 20
    assert abs(axes[hit].astype(int).mean() - 128) < 60, "gray is zero"
    assert len(np.unique(classes[hit] // 20, axis=0)) == 2
    for image in (height, axes, classes):
        assert np.array_equal(image[~hit & (seen == seen[0, 0]).all(axis=2)][0], seen[0, 0])
    with pytest.raises(InputError, match="no output 'depht'; additional outputs: height, axes"):
        drawn(Marked(), "extra:depht")
