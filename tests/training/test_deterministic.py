"""The same seed gives the same bits; fused kernels are compiled once."""

import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Goal
from nerfmac.backend import choose_device, current_device
from nerfmac.config import PRESETS, override
from nerfmac.ops import hash_encode
from tests.conftest import ROOT
from tests.scene_factory import CONFIG, initial, nerfmac, trainer_of

STEPS = 500


def trained(scene, config, steps):
    trainer = trainer_of(config, scene.bounds, scene.views("train"))
    *_, last = trainer.train(initial(trainer), Goal(steps=steps))
    return {name: np.array(values).tobytes() for name, values in last.state.arrays().items()}


def variants_used(monkeypatch):
    """A list of the variants of the table's gradient that are asked for from here on."""
    asked, real = [], hash_encode.variant

    def variant(name):
        found = real(name)
        if name == "hash_encode_gradient":
            asked.append(found)
        return found

    monkeypatch.setattr(hash_encode, "variant", variant)
    return asked


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize("is_deterministic", [True, False])
def test_the_table_s_gradient_is_in_fixed_point_only_where_that_is_asked_for(
    scene, monkeypatch, is_deterministic
):
    asked = variants_used(monkeypatch)
    trained(scene, override(CONFIG, deterministic=is_deterministic), 1)
    assert set(asked) == {"fixed" if is_deterministic else "float"}


@pytest.mark.usefixtures("on_the_cpu")
def test_the_flag_reaches_the_training(balls, tmp_path, monkeypatch):
    asked = variants_used(monkeypatch)
    small = ("--preset", "tiny", "--device", "cpu", "--march.max-samples", 2048, "--train.rays", 64)
    given = ("train", balls, *small, "--steps", 1, "--out", tmp_path / "run", "--no-video")
    assert nerfmac(*given, "--deterministic") == 0
    assert set(asked) == {"fixed"}


@pytest.mark.cuda
def test_two_runs_are_equal_bit_for_bit_on_a_gpu(scene):
    device = mx.default_device()
    choose_device("cuda")
    assert current_device() == "cuda"
    small = {"rays": 512, "max_rays": 2**12}
    try:
        for config in (
            CONFIG,
            override(PRESETS["base"], train=small, march={"max_samples": 2**14}),
        ):
            config = override(config, deterministic=True)
            assert trained(scene, config, STEPS) == trained(scene, config, STEPS)
    finally:
        mx.set_default_device(device)


LOSSES = """
import sys
from pathlib import Path

import mlx.core as mx

from nerfmac.backend import kernels_disabled
from nerfmac.config import TrainConfig
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.penalty import penalties
from nerfmac.training.priors import penalty_weights

mx.set_default_device(mx.cpu)
config = TrainConfig(**{name: 0.01 for name in ("occlusion", "depth", "ground")}, sensor=0.0)
weights = penalty_weights(config)
SLOTS = 384


def loss(density, distance, start, ray, color, progress):
    rays = len(color)
    samples = Samples(mx.zeros((SLOTS, 3)), distance, distance / 8, ray, start, start[1:])
    tracks = mx.stack([distance[: rays // 16]] * 3, axis=1)
    with kernels_disabled():
        given = penalties(samples, progress, weights, tracks, distance[:rays])
    _, penalty = composite_penalized(density, mx.zeros((SLOTS, 3)), samples, given.sample)
    return (penalty + given.ray).sum()


for rays in (64, 128):
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
    first, other = map(int, done.stdout.split())
    assert first > 2
    assert other == first
