"""How far to train, and how training stands on the way: `Goal` in, `Report`s out."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.training.state import TrainState


@dataclass
class Goal:
    """How far to train, and how. Training reads it at every step: it may change meanwhile.

    Without a limit training goes on for good, at the first learning rate.
    """

    steps: int | None = None  # in all, those before a run was loaded included
    seconds: float | None = None  # of training, in all
    rate: float = 1.0  # factor on the learning rate
    most_rays: int | None = None  # of a step; None: the configuration's
    report_interval: float | None = None  # seconds at most; None: a report whenever one is due

    def progress(self, state: TrainState) -> float:
        """What fraction of the way is done; 1 or more at the end."""
        return max(_fraction(state.step, self.steps), _fraction(state.train_seconds, self.seconds))


def _fraction(done: float, limit: float | None) -> float:
    if limit is None:
        return 0.0
    return done / limit if limit > 0 else 1.0


@dataclass(frozen=True)
class Report:
    """How training stands after some step."""

    state: TrainState
    loss: float
    psnr: float  # dB, of the last step's pixels
    progress: float  # in [0, 1], of the steps or seconds asked for
    rays_per_second: float  # since the last report
    samples_per_second: float
