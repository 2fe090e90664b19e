"""Settings of sampling: marching along rays, and the occupancy grid that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from nerfmac.common import checks
from nerfmac.common.checks import InputError


@dataclass(frozen=True)
class MarchConfig:
    """Steps along rays and the sample budget."""

    steps: int = 1024
    """Number of marching steps along the unit cube's diagonal, which sets the shortest step. More:
    finer surfaces, slower training."""
    render_step_divisor: int = 2
    """Divide the marching step by this in rendering. More: finer images, slower rendering."""
    near: float = 0.1
    """Near plane of rendering: smallest distance of a sample from the camera, in scene units."""
    near_training: float = 0.0
    """Near plane of training, in scene units; nothing nearer is learned. 0: estimated from the
    scene's sparse points or, without any, --march.near."""
    cone: float = 1 / 256
    """Length of a far step as a fraction of its distance from the camera, in scenes larger than the
    unit cube. More: faster, coarser far away. 0: all steps are equal."""
    max_samples: int = 2**17
    """Sample budget of a training step. More: more rays per step, slower steps, more memory."""
    march_factor: int = 8
    """Number of marched samples in a step, as a multiple of max-samples, of which training keeps
    those that contribute to the colors of their rays. Larger values give more rays per step and use
    more memory."""
    thin_below: float = 0.01
    """Weight in the color of its ray below which a sample is kept only at random. Larger values
    give more rays per step and noisier gradients. With 0, every visible sample is kept."""

    def __post_init__(self) -> None:
        checks.number("march.steps", self.steps, low=16, high=4096, whole=True)
        divisor = self.render_step_divisor
        checks.number("march.render_step_divisor", divisor, low=1, high=16, whole=True)
        checks.number("march.near", self.near, low=0.0)
        checks.number("march.near_training", self.near_training, low=0.0)
        checks.number("march.cone", self.cone, low=0.0, high=0.1)
        checks.number("march.max_samples", self.max_samples, low=2**11, high=2**24, whole=True)
        checks.number("march.march_factor", self.march_factor, low=1, high=64, whole=True)
        checks.number("march.thin_below", self.thin_below, low=0.0, high=1.0)

    @property
    def step(self) -> float:
        """Length of the shortest step, in scene units."""
        return sqrt(3.0) / self.steps


@dataclass(frozen=True)
class OccupancyConfig:
    """The occupancy grid and its updates."""

    resolution: int = 128
    """Cells along each axis of a cascade, a multiple of 16. More: less empty space is sampled, more
    memory."""
    threshold: float = 0.01
    """Optical thickness of one shortest step above which a cell is occupied. If the mean over the
    unit cube's cells is smaller, the mean is used instead. Larger: more cells are skipped."""
    decay: float = 0.95
    """Factor on the value of every cell at each update. Smaller: cells become empty sooner."""
    interval: int = 16
    """Training steps between updates of the grid: 1 at first, rising to this."""
    warmup_steps: int = 256
    """Training steps in which updates visit all cells evenly; later ones prefer occupied cells."""
    warmup_fraction: float = 1.0
    """Fraction of all cells that an update visits during the warm-up."""
    fraction: float = 0.5
    """Fraction of all cells that an update visits after the warm-up: half of them drawn from all
    cells, half from occupied ones."""
    visibility_rays: int = 2**15
    """Number of training rays that an update marches to find the visible cells."""
    visibility_patience: int = 128
    """A cell counts as empty after this many updates without a visible sample; early in training
    after fewer."""

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
