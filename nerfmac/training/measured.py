"""What a step measured, read from the device; training that has diverged is found there."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.fields.field import Parameters
from nerfmac.training.state import TrainState


class DivergedError(RuntimeError):
    """The loss or a parameter is no longer finite; the message says at which step."""

    run: Any = None
    """The `Run` that diverged, as it was at the last report before."""


class Measured(NamedTuple):
    """What a `Step` measured, on the host."""

    loss: float
    error: float  # mean squared, of colours
    samples: float
    slots_per_ray: float  # that a ray takes


def read(measured: mx.array, state: TrainState) -> Measured:
    """The numbers in `measured` (4,), of the step that led to `state`; waits for the device.

    Raises `DivergedError`.
    """
    numbers = Measured(*map(float, np.array(measured)))
    if not isfinite(numbers.loss):
        raise DivergedError(f"the loss is {numbers.loss} at step {state.step}")
    # The loss is that of the parameters before the step; check those after it too.
    if not _are_finite(state.parameters):
        raise DivergedError(f"the parameters are not finite after step {state.step}")
    return numbers


def _are_finite(parameters: Parameters) -> bool:
    # A value that is not finite makes the sum not finite: one pass is enough.
    return all(bool(mx.isfinite(values.sum())) for values in parameters.values())
