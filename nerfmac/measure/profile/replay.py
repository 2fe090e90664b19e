"""One training step, kernel by kernel, in a timeline.

The host waits for each kernel, so the step takes longer than in training. But each kernel then has
an interval of its own, in the lane "kernels", on any device; before it MLX's own operations have
one, which compute the kernel's inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from nerfmac.backend import kernel, uncompiled
from nerfmac.measure.bench import Build
from nerfmac.measure.profile.parts import STAGES
from nerfmac.measure.profile.steps import NEVER_EVALUATED
from nerfmac.timeline import interval
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

LANE = "kernels"


def replay(trainer: Trainer, state: TrainState) -> None:
    """Take the step that follows `state`, and the update of the sampler's state before it.

    What they compute is dropped. They are recorded if there is a recording.
    """
    phases = trainer.sampler.phases
    with uncompiled():
        trial = trainer.trial(state)
        for index, name in enumerate(["occupancy update"] * phases + ["step", "average"]):
            _one_by_one(name, lambda: next(trial), is_shown=index >= phases - 1)


def _one_by_one(name: str, compute: Callable[[], Any], *, is_shown: bool) -> None:
    """Compute what `compute` builds, in an interval `name`, launch after launch."""
    if not is_shown:
        compute()
        return
    with kernel.launched_by(_launch), interval(f"{name}, kernel by kernel", LANE):
        results = compute()
        with interval("MLX operations", LANE):
            mx.eval(results)


def _launch(build: Build, **call: Any) -> list[mx.array]:
    launched = kernel.kernel_of(build)
    outputs = build(**call)
    if launched.function in NEVER_EVALUATED:
        return outputs
    with interval("MLX operations", LANE):
        mx.eval(call["inputs"])
    stage = STAGES.get(launched.operation, launched.operation)
    with interval(launched.function, LANE, operation=launched.operation, stage=stage):
        mx.eval(outputs)
    return outputs
