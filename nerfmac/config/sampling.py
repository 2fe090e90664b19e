"""Where rays are sampled: marching, and the occupancy grid that it asks."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from nerfmac.common import checks
from nerfmac.common.checks import InputError


@dataclass(frozen=True)
class MarchConfig:
    """Where rays are sampled."""

    steps: int = 1024  # Shortest steps that fit along the diagonal of the unit cube.
    refine: int = 2  # Steps of a picture in the place of one of training.
    near: float = 0.1  # Least distance of a sample from its camera, in scene units.
    cone: float = 1 / 256  # Length of a step per distance, in scenes larger than the unit cube.

    def __post_init__(self) -> None:
        checks.number("march.steps", self.steps, low=16, high=4096, whole=True)
        checks.number("march.refine", self.refine, low=1, high=16, whole=True)
        checks.number("march.near", self.near, low=0.0)
        checks.number("march.cone", self.cone, low=0.0, high=0.1)

    @property
    def step(self) -> float:
        """Length of the shortest step."""
        return sqrt(3.0) / self.steps


@dataclass(frozen=True)
class OccupancyConfig:
    """The occupancy grid and its upkeep."""

    resolution: int = 128  # Cells along an axis of each cascade; a multiple of 16.
    threshold: float = 0.01  # Optical thickness of a shortest step that makes a cell occupied.
    decay: float = 0.95  # Factor on a cell's value at every update.
    interval: int = 16  # Most training steps between updates.
    warmup_steps: int = 256  # Training steps during which cells are drawn evenly.
    warmup_fraction: float = 1.0  # Fraction of all cells that an update visits during warm-up.
    fraction: float = 0.5  # The same after warm-up: half of it anywhere, half in occupied cells.
    followed: int = 2**15  # Rays that an update follows to see which cells light gets to.
    patience: int = 128  # Most updates without light after which a cell counts as empty.

    def __post_init__(self) -> None:
        checks.number("occupancy.resolution", self.resolution, low=16, high=256, whole=True)
        if self.resolution % 16:  # or a brick of cells could be half inside a smaller cascade
            raise InputError(
                f"occupancy.resolution is {self.resolution}; expected a multiple of 16"
            )
        checks.number("occupancy.threshold", self.threshold, low=0.0)
        checks.number("occupancy.decay", self.decay, low=0.0, high=1.0)
        checks.number("occupancy.interval", self.interval, low=1, whole=True)
        checks.number("occupancy.warmup_steps", self.warmup_steps, low=0, whole=True)
        checks.number("occupancy.warmup_fraction", self.warmup_fraction, low=0.001, high=1.0)
        checks.number("occupancy.fraction", self.fraction, low=0.001, high=1.0)
        checks.number("occupancy.followed", self.followed, low=16, high=2**20, whole=True)
        checks.number("occupancy.patience", self.patience, low=1, whole=True)

    def interval_at(self, step: int) -> int:
        """Steps between updates around `step`: 1 at first, then ever more, as in Instant-NGP."""
        return max(1, min(step // 16, self.interval))
