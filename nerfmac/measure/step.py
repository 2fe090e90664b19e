"""A training step's launches, recorded: of a run where it stands, or of a configuration alone."""

from __future__ import annotations

import itertools
from functools import partial

import mlx.core as mx

from nerfmac.backend import uncompiled
from nerfmac.config import Config
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.measure.launches import Launched, Work, launches, total
from nerfmac.measure.timing import Bar
from nerfmac.run import Run
from nerfmac.scenes import Views
from nerfmac.training.goal import Goal
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

NEVER_EVALUATED = ("hash_encode_position_gradient", "packing_samples_per_ray")
"""Kernels in a step's graph whose results are not used, or are used for a report only."""
_WORDS = ("sampling.bits", "moments.")  # arrays of a state that are uint32


def trained(run: Run, steps: int) -> Run:
    """The run, trained until it has `steps` steps in all; a bar shows how far it is."""
    with Bar("training", steps, "steps") as bar:
        for report in run.fit(Goal(steps=steps)):
            bar.reach(report.state.step)
    return run


def recorded_launches(
    trainer: Trainer, state: TrainState, *, on_metal: bool = False
) -> list[list[Launched]]:
    """The launches of each computation of `Trainer.trial`: updates of the sampler, step, average.

    The last update is that after the warm-up. Inputs and outputs are evaluated, unless `on_metal`:
    then nothing is launched, and the launches are those that an Apple GPU would get.
    """
    with uncompiled():
        trial, count = trainer.trial(state), trainer.sampler.phases + 2
        found = [launches(partial(next, trial), on_metal=on_metal) for _ in range(count)]
    if not on_metal:
        for each in itertools.chain(*found):
            mx.eval(each.call["inputs"], each.outputs)
    return found


def unseen(config: Config, extent: float = 1.0) -> tuple[Trainer, TrainState]:
    """A trainer of `config` with one picture of four pixels, and a state of zeros."""
    views = Views(mx.zeros((4, 4), mx.uint8), Cameras.stack([small_camera(4)]), ("one",))
    trainer = Trainer(config, extent, views=views)
    arrays = {
        name: mx.zeros(shape, mx.uint32 if name.startswith(_WORDS) else mx.float32)
        for name, shape in trainer.shapes.items()
    }
    numbers = {"step": 0, "rays": config.train.rays, "train_seconds": 0.0}
    return trainer, TrainState.of(arrays, numbers)


def small_camera(pixels: int) -> Camera:
    """A camera above the scene with a picture of `pixels` x 1."""
    return Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, pixels, 1))


def step_work(recorded: list[list[Launched]], interval: int) -> dict[str, Work]:
    """A step's work by kernel, with 1/`interval` of the last update of the sampler.

    `recorded` is as `recorded_launches` gives it.
    """
    *updates, step, _average = recorded
    work = _by_kernel(step) | {"between kernels": _between(step)}
    for name, one in _by_kernel(updates[-1] if updates else []).items():
        work[f"{name} (occupancy)"] = one // interval
    return work


def _by_kernel(launched: list[Launched]) -> dict[str, Work]:
    counted = [each for each in launched if each.name not in NEVER_EVALUATED]
    return {
        name: total(each.work for each in counted if each.name == name)
        for name in dict.fromkeys(each.name for each in counted)
    }


def _between(step: list[Launched]) -> Work:
    """The largest work of MLX's own operations: rounding the table, adding the partial sums."""
    moved = 0
    encoded = [each.call["inputs"][1] for each in step if each.name == "hash_encode_forward"]
    for table in encoded[:1]:  # rounded once a step, from float32
        moved += table.size * (4 + 2) if table.dtype == mx.float16 else 0
    for each in step:
        if each.name == "networks_gradient":
            partial_sums = each.outputs[1]  # (groups, weights)
            moved += partial_sums.nbytes + 4 * partial_sums.shape[1]
    return Work(moved, moved)
