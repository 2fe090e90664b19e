"""Tiles hold up no GPU for long; the cells that a crop leaves."""

import itertools
from collections import defaultdict
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, Config, Rays, Samples
from nerfmac.app.measure.launches import Work, launches, recorded_launches
from nerfmac.app.measure.selftest.specializations import unseen
from nerfmac.backend import pretended, using
from nerfmac.backend.apple import LONGEST_LAUNCH, additions_per_second
from nerfmac.config.presets import preset
from nerfmac.geometry import Placement
from nerfmac.rendering import renderer
from nerfmac.rendering.crop import cropped
from nerfmac.rendering.renderer import FIRST_TILE, LARGEST_TILE, SMALLEST_TILE, Tiles
from tests.app.viewer.analytic import CUBE, SCENE, cell_boxes
from tests.bricks import out_of_bricks

IMAGE = 1920 * 1080
M1 = 13  # its generation of GPU
M1_BANDWIDTH, M1_RATE = 68e9, 2.6e12  # bytes and float32 operations per second
PRESETS = ("tiny", "small", "base", "big")


def m1_seconds(work: Work) -> float:
    """Estimated seconds of a launch on an M1 without caches."""
    floats, integers = (additions_per_second(M1, M1_RATE, floats=each) for each in (True, False))
    adding = work.float_atomics / floats + work.integer_atomics / integers
    return max(work.seconds(M1_BANDWIDTH, M1_RATE), adding)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU with a simulated clock that traces `rate` rays per second, and a record of tiles."""
    monkeypatch.setattr(renderer.mx, "synchronize", lambda: None)

    def trace_image(tracing: Tiles, rate: float, pixels: int = IMAGE) -> list[float]:
        now, took = [0.0], []
        monkeypatch.setattr(renderer.time, "perf_counter", lambda: now[0])
        while pixels > 0:
            rays = min(tracing.rays, pixels)

            def trace(rays=rays):
                now[0] += rays / rate
                took.append(rays / rate)
                return mx.zeros(1)

            pixels -= rays
            tracing.run(trace, is_last=pixels == 0)
        return took

    with pretended("metal"):
        yield trace_image


@pytest.mark.parametrize("rate", [2e5, 1e6, 1e7, 1e9])
def test_no_tile_takes_long_whatever_the_gpu(gpu, rate):
    tracing = Tiles()
    for _ in range(3):
        assert max(gpu(tracing, rate)) <= LONGEST_LAUNCH


def test_a_quick_gpu_soon_gets_large_tiles_and_a_slow_one_small_ones(gpu):
    quick, slow = Tiles(), Tiles()
    assert len(gpu(quick, 1e9)) < 8
    assert quick.rays == LARGEST_TILE
    gpu(slow, 1e5)
    assert SMALLEST_TILE <= slow.rays < FIRST_TILE
    assert 1e5 * 0.02 < slow.rays < 1e5 * 0.05


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("extent", "adding"), [(1.0, "fixed"), (16.0, "float"), (128.0, "summed")])
def test_no_launch_of_a_preset_is_estimated_to_hold_up_an_m1(name, extent, adding):
    config: Config = preset(name, "metal", 2**36)
    trainer, state = unseen(config, Bounds(extent))
    state = replace(state, rays=config.train.max_rays)
    longest: dict[str, float] = defaultdict(float)
    with using(hash_encode_gradient=adding), pretended("metal", M1):
        recorded = recorded_launches(trainer, state, runs=False)
    for each in itertools.chain(*recorded):
        longest[each.name] = max(longest[each.name], m1_seconds(each.work))
    assert "networks_gradient" in longest
    # An image's rays have as many samples as in a photo's fog, and wait for each other: a
    # third of a chip's rate is much.
    position = mx.zeros((110 * FIRST_TILE, 3))
    count = mx.array([0, len(position)], mx.int32)
    samples = Samples(position, *3 * [mx.zeros(len(position), mx.int32)], count, count[1:])

    def seen():
        rays = Rays(mx.zeros((FIRST_TILE, 3)), mx.zeros((FIRST_TILE, 3)))
        return trainer.model.field(state.parameters, samples, rays)

    with pretended("metal", M1):
        traced = launches(seen, runs=False)
    longest["trace"] = 3 * sum(m1_seconds(each.work) for each in traced)
    assert {each: s for each, s in longest.items() if s > LONGEST_LAUNCH} == {}


FULL = 2**32 - 1
ROTATION = np.array([[-15, -20, 0], [12, -9, -20], [16, -12, 15]]) / 25


def left(geometry, box, placement=None) -> np.ndarray:
    """(cascades, z, y, x) bool: which cells of a full grid the crop leaves."""
    full = mx.full((geometry.cells // 32,), FULL, mx.uint32)
    bits = np.array(cropped(full, geometry, box, placement))
    size = geometry.resolution
    is_set = bits[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return out_of_bricks(is_set.astype(bool), size)


@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_the_cells_that_overlap_the_box_are_left(geometry):
    random = np.random.default_rng(5)
    lowest, highest = cell_boxes(geometry)
    for _ in range(6):
        ends = random.uniform(-0.7, 1.7, (2, 3)) if geometry is SCENE else random.random((2, 3))
        low, high = ends.min(axis=0), ends.max(axis=0)
        want = ((lowest < high) & (highest > low)).all(axis=-1)
        assert 0 < want.sum() < want.size
        got = left(geometry, (tuple(low.tolist()), tuple(high.tolist())))
        assert (got == want).all()


def test_a_box_along_the_cells_faces_does_not_leave_their_neighbors():
    got = left(CUBE, ((0.25, 0.5, 0.125), (0.5, 0.75, 0.1875)))
    z, y, x = np.nonzero(got[0])
    assert (x.min(), x.max()) == (4, 7)
    assert (y.min(), y.max()) == (8, 11)
    assert (z.min(), z.max()) == (2, 2)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_box_beside_the_scene_leaves_nothing(axis):
    low, high = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    low[axis], high[axis] = 3.0, 1e8
    assert not left(SCENE, (tuple(low), tuple(high))).any()
    low[axis], high[axis] = -1e8, -2.0
    assert not left(SCENE, (tuple(low), tuple(high))).any()


@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_a_box_of_the_scenes_files_is_where_its_placement_says(geometry):
    low, high = np.array([-0.4, -0.2, -0.3]), np.array([0.1, 0.5, 0.6])
    for rotation in (np.eye(3), ROTATION):
        placement = Placement(0.7, np.array([0.4, 0.55, 0.5]), 1.0, rotation)
        got = left(geometry, (tuple(low), tuple(high)), placement)
        lowest, highest = cell_boxes(geometry)
        inside = np.zeros(got.shape, bool)
        for fraction in np.random.default_rng(3).random((60, 3)):
            place = placement.to_file(lowest + fraction * (highest - lowest))
            inside |= ((place > low) & (place < high)).all(axis=-1)
        assert 0 < inside.sum() < inside.size
        assert not (inside & ~got).any(), "a cell with a point in the box is left out"
        middle = placement.to_file((lowest + highest) / 2)
        beyond = np.maximum(low - middle, middle - high).max(axis=-1)
        reach = np.sqrt(0.75) * (highest - lowest)[..., 0] / placement.scale
        assert not (got & (beyond > reach)).any(), "a cell far from the box is left"
