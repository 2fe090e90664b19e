"""Tiles are few rays at first, and no launch holds up a GPU for long, be it slow or quick."""

from dataclasses import replace
from math import ceil

import mlx.core as mx
import pytest

from nerfmac.backend.device import pretended
from nerfmac.config import Config
from nerfmac.measure.bench.step_work import step_work, update_work
from nerfmac.measure.bench.work import Sizes, hash_encode_forward, networks_forward
from nerfmac.presets import preset
from nerfmac.rendering import tiles
from nerfmac.rendering.tiles import FIRST, LEAST, MOST, Tiles
from nerfmac.sampling.occupancy import AT_ONCE

PICTURE = 1920 * 1080
M1 = 68e9, 2.6e12  # bytes and operations a second, as in `bench.roofline`
LONGEST = 0.1  # seconds of a launch
PRESETS = ("tiny", "small", "base", "big")


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that traces `rate` rays a second on a clock of its own; what each tile took."""
    monkeypatch.setattr(tiles.mx, "synchronize", lambda: None)

    def trace_picture(tracing: Tiles, rate: float, pixels: int = PICTURE) -> list[float]:
        now, took = [0.0], []
        monkeypatch.setattr(tiles.time, "perf_counter", lambda: now[0])
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
        yield trace_picture


@pytest.mark.parametrize("rate", [2e5, 1e6, 1e7, 1e9])
def test_no_tile_takes_long_whatever_the_gpu(gpu, rate):
    tracing = Tiles()
    for _ in range(3):
        assert max(gpu(tracing, rate)) <= LONGEST


def test_a_quick_gpu_soon_gets_large_tiles_and_a_slow_one_small_ones(gpu):
    quick, slow = Tiles(), Tiles()
    assert len(gpu(quick, 1e9)) < 8
    assert quick.rays == MOST
    gpu(slow, 1e5)
    assert LEAST <= slow.rays < FIRST
    assert 1e5 * 0.02 < slow.rays < 1e5 * 0.05


def test_a_gpu_that_becomes_slower_gets_smaller_tiles(gpu):
    tracing = Tiles()
    gpu(tracing, 3e6)
    before = tracing.rays
    gpu(tracing, 3e5)
    assert tracing.rays < before / 4


def test_a_cpu_has_no_display_to_hold_up():
    with pretended("cpu"):
        assert Tiles().rays == MOST


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("extent", [1.0, 16.0, 128.0])
def test_no_launch_of_a_preset_is_estimated_to_hold_up_an_m1(name, extent):
    config: Config = preset(name, "metal", 2**36)
    sizes = Sizes.of(config, extent, config.train.most_rays, on_gpu=True)
    samples = 110  # of a ray of a picture, as many as in a photograph's fog
    traced = replace(sizes, slots=FIRST * samples, rays=FIRST)
    # A picture's rays wait for each other: a third of a chip's rate is much.
    trace = 3 * (networks_forward(traced) + hash_encode_forward(traced, traced.slots)).seconds(
        *M1, cached=False
    )
    visited = ceil(sizes.cells * config.occupancy.warmup_fraction)
    warmup = replace(sizes, visited=min(visited, AT_ONCE))
    launches = {**step_work(sizes), **update_work(warmup)}
    longest = {each: work.seconds(*M1, cached=False) for each, work in launches.items()}
    assert {each: s for each, s in {**longest, "trace": trace}.items() if s > LONGEST} == {}
