"""Settings of Adam, the learning rate schedule, and the moving average of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nerfmac.common import checks


class ParameterGroup(NamedTuple):
    """Adam settings for one parameter that override the settings in `OptimizerConfig`."""

    rate: float  # learning rate
    l2: float  # factor of the L2 penalty
    step: int | None = None  # number of updates, for bias correction; None if updated in every step


@dataclass(frozen=True)
class OptimizerConfig:
    """Settings of Adam, the learning rate schedule, and the moving average of the parameters.

    The learning rate rises over `warmup_steps`, as in nerfacc's training of Instant-NGP. Without a
    warm-up, Adam's first steps have full length even for small gradients. As a result, colors in a
    dark scene became so dark that the gradient of the sigmoid vanished. If the length of the run is
    known, the rate is constant up to the fraction `hold` of the run and then decays exponentially.
    Instant-NGP uses the learning rate 0.01 for all parameters and multiplies it by 0.33 at fixed
    steps. Networks have a smaller learning rate than tables, because every sample contributes to
    the networks' gradients. The L2 penalty applies only to networks, because it would decay table
    entries that a step does not read.
    """

    rate: float = 3e-2  # Learning rate after the warm-up. Reduce it if training diverges.
    networks: float = 0.2  # Factor of the learning rate for the weights of the networks.
    beta1: float = 0.9  # Decay per step of Adam's mean gradient.
    beta2: float = 0.99  # Decay per step of Adam's mean squared gradient; above beta1^2.
    epsilon: float = 1e-15  # Constant that Adam adds to the root of the mean squared gradient.
    l2: float = 1e-7  # Weight of the L2 penalty on the weights of the networks.
    warmup_steps: int = 100  # Number of steps over which the learning rate rises from 0.
    hold: float = 0.7  # Fraction of the run with a constant rate, before it decays.
    final_rate: float = 0.01  # Learning rate at the end of the run, as a fraction of `rate`.
    average: float = 0.95
    """Decay per step of the exponential moving average of the parameters. Renderings use the
    averaged parameters."""

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
        """Return the learning rate at `step`, counted from 0, when a fraction `progress` of the run
        is finished."""
        rising = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        falling = max(0.0, (progress - self.hold) / (1.0 - self.hold))
        return self.rate * rising * self.final_rate**falling
