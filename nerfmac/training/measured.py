"""What a step measured, read from the device; training that has diverged is found there."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.fields.field import Parameters
from nerfmac.training.state import TrainState

MOST_SKIPPED = 24
"""Skipped steps in a row after which training has diverged. By then the loss scale is 2^24 times
smaller: the fault is not one of half precision."""

ADVICE = "a smaller learning rate may help (--optimiser.rate 0.01), or another --seed"


class DivergedError(RuntimeError):
    """The loss, the gradients or a parameter stay without a finite value; the message has the step.

    `run` is the run as it was at the last report before.
    """

    run: Any = None


class Measured(NamedTuple):
    """What a `Step` measured, on the host."""

    loss: float
    error: float  # mean squared, of colours
    samples: float
    slots_per_ray: float  # that a ray takes
    skipped_steps: int = 0  # of the whole run
    is_skipped: bool = False  # whether the step was skipped


def read(measured: mx.array, state: TrainState, last: Measured | None = None) -> Measured:
    """The numbers in `measured` (4,), of the step that led to `state`; waits for the device.

    A skipped step has the loss and the error of `last`, or 1 if there is none: its own need not be
    finite. Raises `DivergedError`.
    """
    loss, error, samples, slots_per_ray = map(float, np.array(measured))
    in_a_row, skipped = (int(state.scaling[f"skipped{name}"]) for name in ("_in_a_row", ""))
    if in_a_row >= MOST_SKIPPED:
        raise DivergedError(
            f"the gradients of {in_a_row} steps in a row, up to step {state.step}, are not finite; "
            + ADVICE
        )
    if in_a_row:
        loss, error = (last.loss, last.error) if last else (1.0, 1.0)
    elif not isfinite(loss):
        raise DivergedError(f"the loss is {loss} at step {state.step}; {ADVICE}")
    # The loss is that of the parameters before the step; check those after it too.
    if not _are_finite(state.parameters):
        raise DivergedError(f"the parameters are not finite after step {state.step}; {ADVICE}")
    return Measured(loss, error, samples, slots_per_ray, skipped, in_a_row > 0)


def _are_finite(parameters: Parameters) -> bool:
    # A value that is not finite makes the sum not finite: one pass is enough.
    return all(bool(mx.isfinite(values.sum())) for values in parameters.values())
