"""How many rays a step takes, and how many steps wait for the device."""

from dataclasses import replace

import mlx.core as mx

from nerfmac.app.scenes import load_scene
from nerfmac.backend import choose_device
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.trainer import StepQueue, Trainer
from tests.scene_factory import CONFIG, write_scene


def test_rays_follow_the_samples_per_ray():
    slots, most = CONFIG.march.max_samples, CONFIG.train.max_rays
    numbers = [RayBudget.of(CONFIG).rays(samples) for samples in (0.0, 1.0, 2.0, 3.7, 20.0, 1e9)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == numbers[1] <= most
    assert numbers[-1] == 16
    for samples, rays in zip((2.0, 3.7, 20.0), numbers[2:], strict=False):
        assert rays % 16 == 0
        assert 0.8 * slots < samples * rays <= slots, f"{samples} samples a ray, {rays} rays"


def test_never_more_than_two_steps_are_queued(tmp_path, monkeypatch):
    choose_device("cpu")
    scene = load_scene(write_scene(tmp_path))
    state, begun, awaited = Trainer(CONFIG, scene.bounds, scene.views("train")).init(), [], []
    states = [replace(state, parameters={"color": mx.array(float(step))}) for step in range(6)]
    monkeypatch.setattr(mx, "async_eval", lambda arrays: begun.append(arrays["parameters.color"]))
    monkeypatch.setattr(mx, "eval", awaited.append)
    queue = StepQueue()
    for step, each in enumerate(states):
        queue.add(each)
        assert [values.item() for values in begun] == list(range(step + 1))
        assert [values.item() for values in awaited] == list(range(step - 1))
