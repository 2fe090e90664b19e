"""Tiles are few rays at first, and no launch holds up a GPU for long, be it slow or quick."""

import itertools
from collections import defaultdict
from dataclasses import replace

import mlx.core as mx
import pytest

from nerfmac.app.measure.launches import Work, launches, recorded_launches, unseen
from nerfmac.backend import using
from nerfmac.backend.apple import LONGEST_LAUNCH, additions_per_second
from nerfmac.backend.device import pretended
from nerfmac.config import Config
from nerfmac.config.presets import preset
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.samples import Samples
from nerfmac.rendering import renderer
from nerfmac.rendering.renderer import FIRST_TILE, LARGEST_TILE, SMALLEST_TILE, Tiles

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


def test_a_gpu_that_becomes_slower_gets_smaller_tiles(gpu):
    tracing = Tiles()
    gpu(tracing, 3e6)
    before = tracing.rays
    gpu(tracing, 3e5)
    assert tracing.rays < before / 4


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("extent", "adding"), [(1.0, "fixed"), (16.0, "float"), (128.0, "summed")])
def test_no_launch_of_a_preset_is_estimated_to_hold_up_an_m1(name, extent, adding):
    config: Config = preset(name, "metal", 2**36)
    trainer, state = unseen(config, Bounds(extent))
    state = replace(state, rays=config.train.max_rays)
    longest: dict[str, float] = defaultdict(float)
    with using(hash_encode_gradient=adding):
        recorded = recorded_launches(trainer, state, on_metal=True, generation=M1)
    for each in itertools.chain(*recorded):
        longest[each.name] = max(longest[each.name], m1_seconds(each.work))
    assert "networks_gradient" in longest
    # An image's rays have as many samples as in a photo's fog, and wait for each other: a
    # third of a chip's rate is much.
    position = mx.zeros((110 * FIRST_TILE, 3))
    count = mx.array([0, len(position)], mx.int32)
    samples = Samples(position, *3 * [mx.zeros(len(position), mx.int32)], count, count[1:])

    def seen():
        return trainer.field(state.parameters, samples, mx.zeros((FIRST_TILE, 3)))

    traced = launches(seen, on_metal=True, generation=M1)
    longest["trace"] = 3 * sum(m1_seconds(each.work) for each in traced)
    assert {each: s for each, s in longest.items() if s > LONGEST_LAUNCH} == {}
