"""Settings of ray marching and the occupancy grid."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from nerfmac.common import checks
from nerfmac.common.checks import InputError

FIRST_INTERVAL = 4
"""Number of training steps between the first updates of the occupancy grid. Instant-NGP first
updates the grid after every step, but on a CPU, an update takes as long as two training steps."""

NEAR = 0.1
"""Near plane of scenes without sparse points, in scene units. A near plane that is estimated from
sparse points is at least this large."""


@dataclass(frozen=True)
class MarchConfig:
    """Settings of ray marching and the sample budget."""

    steps: int = 1024
    """Number of marching steps along the diagonal of the unit cube. The number determines the
    length of the shortest step. Larger values give finer surfaces and slow down training."""
    render_step_divisor: int = 2
    """Divisor of the marching step for rendering. Larger values give finer images and slower
    rendering."""
    near: float | None = None
    """Near plane: minimum distance of samples from the camera, in scene units, in training and in
    renderings. By default (auto), the near plane is three quarters of the distance between the
    cameras and the nearest sparse points, or 0.1 without sparse points. A larger near plane
    prevents haze in front of the cameras."""
    cone: float = 1 / 256
    """Length of distant marching steps as a fraction of their distance from the camera, in scenes
    larger than the unit cube. Larger values are faster but give coarser backgrounds. With 0, all
    steps have the same length."""
    max_samples: int = 2**17
    """Maximum number of samples in a training step. Larger values allow more rays per step, slow
    down each step, and use more memory."""
    march_factor: int = 8
    """Number of samples that marching generates in a training step, as a multiple of max-samples.
    Training uses only the samples that contribute to the colors of their rays. Larger values allow
    more rays per step and use more memory."""
    thin_below: float = 0.01
    """Threshold on a sample's weight in the color of its ray, in scenes larger than the unit cube.
    Only a random subset of the samples below the threshold is kept. Larger values allow more rays
    per step but give noisier gradients. With 0, all visible samples are kept. nerfacc's
    `alpha_thre` is a threshold on the opacity, below which all samples are skipped."""

    def __post_init__(self) -> None:
        checks.number("march.steps", self.steps, low=16, high=4096, whole=True)
        divisor = self.render_step_divisor
        checks.number("march.render_step_divisor", divisor, low=1, high=16, whole=True)
        checks.optional_number("march.near", self.near, low=0.0)
        checks.number("march.cone", self.cone, low=0.0, high=0.1)
        checks.number("march.max_samples", self.max_samples, low=2**11, high=2**24, whole=True)
        checks.number("march.march_factor", self.march_factor, low=1, high=64, whole=True)
        checks.number("march.thin_below", self.thin_below, low=0.0, high=1.0)

    @property
    def step(self) -> float:
        """Length of the shortest marching step, in scene units."""
        return sqrt(3.0) / self.steps

    @property
    def near_plane(self) -> float:
        """Near plane in scene units: `near`, or `NEAR` if `near` is None."""
        return NEAR if self.near is None else self.near


@dataclass(frozen=True)
class OccupancyConfig:
    """Settings of the occupancy grid and its updates."""

    resolution: int = 128
    """Number of cells along each axis of a cascade, a multiple of 16. Larger values avoid more
    samples in empty space, but the grid uses more memory."""
    threshold: float = 0.01
    """Threshold on the optical thickness of the shortest marching step in a cell. Cells above the
    threshold are occupied. If the mean optical thickness of the cells in the unit cube is smaller,
    the mean replaces this threshold. With larger values, marching skips more cells."""
    decay: float = 0.95
    """Decay factor of all cells' density estimates in each update. With smaller values, cells
    become empty sooner."""
    interval: int = 16
    """Maximum number of training steps between grid updates. The interval is 4 steps at the start
    of training and grows to this maximum."""
    warmup_steps: int = 256
    """Number of training steps during which updates visit all cells evenly. Later updates prefer
    occupied cells."""
    warmup_fraction: float = 1.0
    """Fraction of the cells that an update visits during the warm-up. An update visits at most 2^21
    cells."""
    fraction: float = 0.25
    """Fraction of the cells that an update visits after the warm-up. Half of the visited cells are
    drawn from all cells and half from the occupied cells."""
    visibility_rays: int = 2**15
    """Number of training rays that each update uses to determine which cells are visible."""
    visibility_patience: int = 128
    """Number of consecutive updates without a visible sample after which a cell counts as empty.
    Early in training, fewer updates are sufficient."""

    def __post_init__(self) -> None:
        checks.number("occupancy.resolution", self.resolution, low=16, high=256, whole=True)
        if self.resolution % 16:  # a brick could be partly inside a smaller cascade
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
        """Return the number of training steps between two updates of the grid at `step`."""
        return min(max(FIRST_INTERVAL, step // 16), self.interval)
