"""`Config.deterministic`: the same bits for the same seed, on GPUs too."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device, current_device
from nerfmac.config import override
from nerfmac.config.presets import PRESETS
from nerfmac.ops import hash_encode
from nerfmac.training.goal import Goal
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, nerfmac

STEPS = 500


def trained(scene, config, steps):
    trainer = Trainer(config, scene.bounds, scene.views("train"))
    *_, last = trainer.train(trainer.init(), Goal(steps=steps))
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
