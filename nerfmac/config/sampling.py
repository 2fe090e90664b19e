"""Where rays are sampled: marching, and the occupancy grid that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from nerfmac.common import checks
from nerfmac.common.checks import InputError


@dataclass(frozen=True)
class MarchConfig:
    """Steps along rays and the sample budget."""

    steps: int = 1024
    """Shortest steps along the unit cube's diagonal. More: finer surfaces, slower training."""
    render_step_divisor: int = 2
    """Steps of a picture for each training step. More: finer pictures, slower rendering."""
    near: float = 0.1
    """Smallest distance of a picture's sample from its camera, in scene units."""
    near_training: float = 0.0
    """The same for training rays; nothing is learned nearer. 0: by the sparse points, if any."""
    cone: float = 1 / 256
    """Growth of steps with distance in scenes beyond the unit cube. 0: all steps are equal."""
    max_samples: int = 2**17
    """Samples of a training step. More: more rays a step, slower steps, more memory."""
    march_factor: int = 4
    """March up to this factor times max-samples samples a step and keep those that no opaque matter
    hides. 0: march max-samples and keep all."""

    def __post_init__(self) -> None:
        checks.number("march.steps", self.steps, low=16, high=4096, whole=True)
        divisor = self.render_step_divisor
        checks.number("march.render_step_divisor", divisor, low=1, high=16, whole=True)
        checks.number("march.near", self.near, low=0.0)
        checks.number("march.near_training", self.near_training, low=0.0)
        checks.number("march.cone", self.cone, low=0.0, high=0.1)
        checks.number("march.max_samples", self.max_samples, low=2**11, high=2**24, whole=True)
        checks.number("march.march_factor", self.march_factor, low=0, high=64, whole=True)

    @property
    def step(self) -> float:
        """Length of the shortest step, in scene units."""
        return sqrt(3.0) / self.steps


@dataclass(frozen=True)
class OccupancyConfig:
    """The occupancy grid and its updates."""

    resolution: int = 128
    """Cells along an axis of each cascade; a multiple of 16. More: tighter samples, more memory."""
    threshold: float = 0.01
    """Optical thickness of a shortest step above which a cell counts as occupied."""
    decay: float = 0.95
    """Factor on every cell's value at each update. Smaller: cells empty sooner."""
    interval: int = 16
    """Largest number of training steps between grid updates; 1 at first, rising to this."""
    warmup_steps: int = 256
    """Training steps whose updates visit cells evenly, before they prefer occupied ones."""
    warmup_fraction: float = 1.0
    """Fraction of all cells that an update visits during the warm-up."""
    fraction: float = 0.5
    """Fraction of all cells that a later update visits: half anywhere, half occupied."""
    visibility_rays: int = 2**15
    """Training rays that an update marches to see which cells are visible."""
    visibility_patience: int = 128
    """Most updates without a visible sample after which a cell counts as empty."""

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
        rays, patience = self.visibility_rays, self.visibility_patience
        checks.number("occupancy.visibility_rays", rays, low=16, high=2**20, whole=True)
        checks.number("occupancy.visibility_patience", patience, low=1, whole=True)

    def interval_at(self, step: int) -> int:
        """Steps between updates around `step`: 1 at first, growing to `interval`."""
        return max(1, min(step // 16, self.interval))
