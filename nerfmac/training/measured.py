"""Transfer of step measurements to the host, and detection of diverged training."""

from math import isfinite
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import confirm, to_numpy
from nerfmac.ops.loss_scale import LossScale
from nerfmac.training.state import TrainState

MOST_SKIPPED = 24
"""If this many consecutive steps are skipped, training counts as diverged. Each skipped step halves
the loss scale, so after this many steps, half-precision overflow cannot be the reason."""

ADVICE = "a smaller learning rate may help (optimizer.rate 0.01), or another seed"


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
    skipped_steps: int = 0  # number of skipped steps of the whole run
    is_skipped: bool = False  # whether this step was skipped


def with_checks(measured: mx.array, state: TrainState) -> mx.array:
    """Return an array that contains the measurements of a step and the values that indicate whether
    training has diverged.

    Args:
        measured: Measurements, as in `StepResult.measured`.
        state: State after the step.

    Returns:
        float32 (7,): the measurements, the number of consecutive skipped steps, the number of
        skipped steps of the whole run, and the sum of all parameters, which is not finite if any
        parameter is not finite.
    """
    scaling = LossScale(**state.scaling)
    # The loss is computed with the parameters before the step, so the parameters after the step are
    # checked as well.
    total = sum((values.sum() for values in state.parameters.values()), start=mx.array(0.0))
    return mx.concatenate([measured, mx.stack([scaling.skipped_in_a_row, scaling.skipped, total])])


def read(checked: mx.array, step: int, last: Measured | None = None) -> Measured:
    """Copy the measurements of a step to the host, and wait until the device has finished the step.

    Args:
        checked: Measurements and values to check, as returned by `with_checks`.
        step: Number of the step.
        last: Previous measurements. If the step was skipped, its loss and error may not be finite,
            so they are copied from `last` or, if `last` is None, set to 1.

    Returns:
        Measurements of the step.

    Raises:
        DivergedError: If the loss or a parameter is not finite, or if too many consecutive steps
            were skipped.
    """
    loss, error, samples, _, in_a_row, skipped, total = map(float, to_numpy(checked))
    fault = None
    if in_a_row >= MOST_SKIPPED:
        fault = f"the gradients of {in_a_row:.0f} steps in a row, up to step {step}, are not finite"
    elif in_a_row:
        loss, error = (last.loss, last.error) if last else (1.0, 1.0)
    elif not isfinite(loss):
        fault = f"the loss is {loss} at step {step}"
    if fault is None and not isfinite(total):
        fault = f"the parameters are not finite after step {step}"
    if fault is not None:
        confirm()  # If the GPU has failed, this raises the error that explains the values.
        raise DivergedError(f"{fault}; {ADVICE}")
    return Measured(loss, error, samples, int(skipped), in_a_row > 0)
