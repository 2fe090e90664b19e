"""Recorded launches of a training step: of a run in its current state, or of a configuration."""

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

NEVER_EVALUATED = ("hash_encode_position_gradient", "packing_demand")
"""Kernels of a step's graph whose results a step does not use, or uses for a report only."""
_WORDS = ("sampling.bits", "moments.")  # prefixes of a state's uint32 arrays


def trained(run: Run, steps: int) -> Run:
    """Train `run` to a total of `steps` steps, with a progress bar; return it."""
    with Bar("training", steps, "steps") as bar:
        for report in run.fit(Goal(steps=steps)):
            bar.reach(report.state.step)
    return run


def recorded_launches(
    trainer: Trainer, state: TrainState, *, on_metal: bool = False
) -> list[list[Launched]]:
    """Record the launches of each computation of `Trainer.trial`: updates, step, average.

    Updates are the occupancy updates of the sampler's phases; the last phase is the one after the
    warm-up. Inputs and outputs are evaluated. With `on_metal` nothing is launched; the launches are
    then those that an Apple GPU would get.
    """
    with uncompiled():
        trial, count = trainer.trial(state), trainer.sampler.phases + 2
        recorded = [launches(partial(next, trial), on_metal=on_metal) for _ in range(count)]
    if not on_metal:
        for launched in itertools.chain(*recorded):
            mx.eval(launched.call["inputs"], launched.outputs)
    return recorded


def unseen(config: Config, extent: float = 1.0) -> tuple[Trainer, TrainState]:
    """A trainer of `config` with one view of four pixels, and a state of zeros."""
    views = Views(mx.zeros((4, 4), mx.uint8), Cameras.stack([small_camera(4)]), ("one",))
    trainer = Trainer(config, extent, views=views)
    arrays = {
        name: mx.zeros(shape, mx.uint32 if name.startswith(_WORDS) else mx.float32)
        for name, shape in trainer.shapes.items()
    }
    numbers = {"step": 0, "rays": config.train.rays, "train_seconds": 0.0}
    return trainer, TrainState.of(arrays, numbers)


def small_camera(pixels: int) -> Camera:
    """A camera above the scene whose picture has `pixels` x 1 pixels."""
    return Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, pixels, 1))


def step_work(recorded: list[list[Launched]], interval: int) -> dict[str, Work]:
    """Work of a step by kernel, plus 1/`interval` of the last occupancy update.

    `recorded` is the result of `recorded_launches`.
    """
    *updates, step, _average = recorded
    work = _work_by_kernel(step) | {"between kernels": _between(step)}
    for name, one in _work_by_kernel(updates[-1] if updates else []).items():
        work[f"{name} (occupancy)"] = one // interval
    return work


def by_kernel(recorded: list[Launched]) -> dict[str, list[Launched]]:
    """The recorded launches by kernel name, in order of first launch, without `NEVER_EVALUATED`."""
    kernels: dict[str, list[Launched]] = {}
    for launched in recorded:
        if launched.name not in NEVER_EVALUATED:
            kernels.setdefault(launched.name, []).append(launched)
    return kernels


def _work_by_kernel(recorded: list[Launched]) -> dict[str, Work]:
    kernels = by_kernel(recorded).items()
    return {name: total(launched.work for launched in same) for name, same in kernels}


def _between(step: list[Launched]) -> Work:
    """The largest work of MLX's own operations: rounding the table, adding partial sums."""
    moved = 0
    encoded = [each.call["inputs"][1] for each in step if each.name == "hash_encode_forward"]
    for table in encoded[:1]:  # rounded from float32 once a step
        moved += table.size * (4 + 2) if table.dtype == mx.float16 else 0
    for each in step:
        if each.name == "networks_gradient":
            partial_sums = each.outputs[1]  # (groups, weights)
            moved += partial_sums.nbytes + 4 * partial_sums.shape[1]
    return Work(moved, moved)
