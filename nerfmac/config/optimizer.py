"""Settings of Adam, its schedule, and the average of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nerfmac.common import checks


class ParameterGroup(NamedTuple):
    """Adam's settings for one parameter, in place of those in `OptimizerConfig`."""

    rate: float  # learning rate
    l2: float  # factor of the L2 penalty
    step: int | None = None  # its updates so far, for bias correction; None: all steps


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam, the learning rate over the run, and the average of the parameters for rendering.

    The learning rate rises over `warmup_steps`, as in nerfacc's training of Instant-NGP. Without
    it, Adam's first steps have full length whatever the gradient; in a dark scene they made colors
    so black that the sigmoid let no gradient through. In a run of known length the rate is constant
    up to the fraction `hold` of the run, then falls exponentially. (Instant-NGP: 0.01 for all,
    times 0.33 at fixed steps.) Networks take a smaller rate than tables, since every sample changes
    them. L2 applies to networks only: it would decay the table entries that a step does not read.
    """

    rate: float = 3e-2  # Learning rate after warm-up; lower it if training diverges.
    networks: float = 0.2  # Factor on the learning rate for the networks' weights.
    beta1: float = 0.9  # Adam's decay per step of the mean gradient.
    beta2: float = 0.99  # Adam's decay per step of the mean squared gradient; above beta1^2.
    epsilon: float = 1e-15  # Adam's term added to the root of the mean squared gradient.
    l2: float = 1e-7  # L2 penalty on the networks' weights; larger: smaller weights.
    warmup_steps: int = 100  # Steps over which the learning rate rises from 0; 0: none.
    hold: float = 0.7  # Fraction of the run for which the learning rate is kept before it falls.
    final_rate: float = 0.01  # Learning rate at the end, as a fraction of `rate`.
    average: float = 0.95
    """Decay per step of the parameters' moving average (EMA), with which images are rendered."""

    def __post_init__(self) -> None:
        for name in ("rate", "epsilon", "final_rate"):
            checks.number(f"optimizer.{name}", getattr(self, name), low=1e-30, high=checks.LARGEST)
        for name in ("beta1", "hold", "average"):
            checks.number(f"optimizer.{name}", getattr(self, name), low=0.0, high=0.9999)
        checks.number("optimizer.beta2", self.beta2, low=self.beta1**2 + 1e-6, high=0.9999)
        checks.number("optimizer.networks", self.networks, low=1e-3, high=1e3)
        checks.number("optimizer.l2", self.l2, low=0.0)
        checks.number("optimizer.warmup_steps", self.warmup_steps, low=0, whole=True)

    def rate_at(self, progress: float, step: int) -> float:
        """The learning rate of `step`, counted from 0, at the finished fraction `progress`."""
        rising = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        falling = max(0.0, (progress - self.hold) / (1.0 - self.hold))
        return self.rate * rising * self.final_rate**falling
