"""Transfer of step measurements to the host, and detection of diverged training."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import to_numpy
from nerfmac.training.state import TrainState

MOST_SKIPPED = 24
"""If this many consecutive steps are skipped, training counts as diverged. Each skipped step halves
the loss scale, so after this many steps, half-precision overflow cannot be the reason."""

ADVICE = "a smaller learning rate may help (--optimizer.rate 0.01), or another --seed"


class DivergedError(RuntimeError):
    """Error that is raised if a loss, gradient, or parameter is not finite during training.

    The message contains the step. `run` is the run in its state at the last valid report, or None
    if training does not use a `Run`.
    """

    run: Any = None


class Measured(NamedTuple):
    """Measurements of a training step, copied to the host."""

    loss: float
    error: float  # mean squared error of the colors
    samples: float
    samples_per_ray: float
    skipped_steps: int = 0  # number of skipped steps of the whole run
    is_skipped: bool = False  # whether this step was skipped


def read(measured: mx.array, state: TrainState, last: Measured | None = None) -> Measured:
    """Copy the measurements of the step that produced `state` to the host.

    `measured` contains the loss, the mean squared color error, the number of samples, and the mean
    number of slots per ray. The call blocks until the device has finished the step. If the step was
    skipped, its loss and error may not be finite, so they are copied from `last` or, if `last` is
    None, set to 1. Raises `DivergedError` if the loss or a parameter is not finite, or if too many
    consecutive steps were skipped.
    """
    loss, error, samples, samples_per_ray = map(float, to_numpy(measured))
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
    # The loss is computed with the parameters before the step, so the parameters after the step are
    # checked as well. If any value is not finite, their sum is not finite.
    if not all(mx.isfinite(values.sum()) for values in state.parameters.values()):
        raise DivergedError(f"the parameters are not finite after step {state.step}; {ADVICE}")
    return Measured(loss, error, samples, samples_per_ray, skipped, in_a_row > 0)
