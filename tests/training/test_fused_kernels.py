"""MLX compiles the fused kernels of the losses once, not again for each number of rays."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

LOSSES = """
import sys
from pathlib import Path

import mlx.core as mx

from nerfmac.config import TrainConfig
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite_penalized
from nerfmac.training.losses import (
    PenaltyInput, RayBatch, configured_extra_losses, configured_penalty,
)
from nerfmac.training.track_rays import TrackTargets

mx.set_default_device(mx.cpu)
names = ("disparity", "distortion", "entropy", "depth", "smoothness", "ground")
config = TrainConfig(**{name: 0.01 for name in names})
losses, penalty_of = configured_extra_losses(config), configured_penalty(config, extent=2.0)
SLOTS = 384


def loss(density, distance, start, ray, color, progress):
    rays = len(color)
    samples = Samples(mx.zeros((SLOTS, 3)), distance, distance / 8, ray, start, start[1:])
    tracks = TrackTargets(*(distance[: rays // 16] for _ in range(3)))
    batch = RayBatch(
        color, color[:, 0], color[:, 1], color[:, :1], density, samples,
        progress=progress, tracks=tracks, pairs=rays // 2,
    )
    penalty = penalty_of(PenaltyInput(samples, progress, distance[:rays], tracks))
    _, penalty = composite_penalized(density, mx.zeros((SLOTS, 3)), samples, penalty)
    return sum(loss(batch, color).sum() for loss in losses) + penalty.sum()


for rays in (64, 96, 128):
    each = SLOTS // rays
    start = mx.array([each * ray for ray in range(rays + 1)], mx.int32)
    ray = mx.array([slot // each for slot in range(SLOTS)], mx.int32)
    slots = mx.random.uniform(0.5, 1.0, (2, SLOTS))
    color = mx.random.uniform(0.1, 0.9, (rays, 3))
    mx.eval(start, ray, slots, color)
    slope = mx.compile(mx.grad(loss, argnums=(0, 4)))
    mx.eval(slope(*slots, start, ray, color, mx.array(0.1)))
    print(len(list(Path(sys.argv[1]).rglob("*.so"))))
"""


@pytest.mark.slow
def test_another_number_of_rays_needs_no_other_fused_kernels(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOSSES, tmp_path]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *others = map(int, done.stdout.split())
    assert first > 5
    assert others == [first, first]
