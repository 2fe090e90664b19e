"""`Goal`, the limits of training, and `Report`, the state and measurements after a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from nerfmac.rendering.metrics import decibels
from nerfmac.training.measured import Measured
from nerfmac.training.state import TrainState


@dataclass
class Goal:
    """Limits of training, such as the number of steps.

    The trainer reads the limits at every step, so they may change during training. If both `steps`
    and `seconds` are None, training never ends, and the learning rate keeps its value: a run whose
    learning rate has decayed continues with the decayed rate, because a higher rate would blur it.
    """

    steps: int | None = None  # total number of steps, including steps before loading
    seconds: float | None = None  # total training time in seconds, including time before loading
    rate: float = 1.0  # factor of the learning rate
    max_rays: int | None = None  # maximum number of rays per step, or None to use the configuration
    report_interval: float | None = None  # maximum seconds between reports, or None
    # The largest completed fraction so far determines the learning rate without a limit, because a
    # limit may be removed after the rate has risen again.
    reached: float = field(default=0.0, init=False, compare=False)

    @property
    def has_end(self) -> bool:
        """Whether the number of steps or the training time is limited."""
        return self.steps is not None or self.seconds is not None

    def train_frac(self, state: TrainState) -> float:
        """Return the completed fraction that determines the learning rate and decaying weights.

        Args:
            state: State of the training.

        Returns:
            Completed fraction in [0, 1]. Without a limit, it is the largest one so far.
        """
        self.reached = max(self.reached, state.train_frac)
        return min(self.progress(state), 1.0) if self.has_end else self.reached

    def progress(self, state: TrainState) -> float:
        """Return the fraction of training that is complete.

        Args:
            state: State of the training.

        Returns:
            Completed fraction of the steps or of the seconds, whichever is larger. If training is
            complete, the fraction is at least 1.
        """
        return max(_fraction(state.step, self.steps), _fraction(state.train_seconds, self.seconds))


def _fraction(done: float, limit: float | None) -> float:
    return 0.0 if limit is None else done / limit if limit > 0 else 1.0


@dataclass(frozen=True)
class Report:
    """Training state and measurements after a step."""

    state: TrainState
    loss: float
    psnr: float  # dB, over the pixels of the last step
    progress: float  # complete fraction of training, in [0, 1]
    rays_per_second: float  # since the last report
    samples_per_second: float
    skipped_steps: int = 0
    """Number of steps of the whole run that were skipped because a gradient was not finite."""
    is_skipped: bool = False
    """Whether the last step was skipped. If True, loss and PSNR are from the previous report."""

    @classmethod
    def of(
        cls, state: TrainState, measured: Measured, progress: float, rays_per_second: float
    ) -> Report:
        """Create the report on a step.

        Args:
            state: State after the step.
            measured: Measurements of the step.
            progress: Fraction of training that is complete.
            rays_per_second: Mean rate since the previous report.

        Returns:
            Report.
        """
        return cls(
            state=state,
            loss=measured.loss,
            psnr=decibels(max(measured.error, 1e-10)),
            progress=min(progress, 1.0),
            rays_per_second=rays_per_second,
            samples_per_second=rays_per_second * measured.samples / state.rays,
            skipped_steps=measured.skipped_steps,
            is_skipped=measured.is_skipped,
        )

    def __str__(self) -> str:
        return (
            f"step {self.state.step}, loss {self.loss:.4f}, {self.psnr:.1f} dB, "
            f"{self.rays_per_second / 1e3:.0f}k rays/s, "
            f"{self.samples_per_second / 1e3:.0f}k samples/s"
        )
