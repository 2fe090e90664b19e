"""Settings of ray marching and the occupancy grid."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

from nerfmac.common import InputError
from nerfmac.config.settings import Range, Settings, known

FIRST_INTERVAL = 4
"""Number of training steps between the first updates of the occupancy grid. Instant-NGP first
updates the grid after every step, but on a CPU, an update takes as long as two training steps."""

NEAR = 0.1
"""Near plane of scenes without sparse points, in scene units. A near plane that is estimated from
sparse points is at least this large."""


@dataclass(frozen=True)
class MarchConfig(Settings):
    """Settings of ray marching and the sample budget."""

    _prefix = "march."

    steps: Annotated[int, Range(16, 4096)] = 1024
    """Number of marching steps along the diagonal of the unit cube. The number determines the
    length of the shortest step. Larger values give finer surfaces and slow down training."""
    render_step_divisor: Annotated[int, Range(1, 16)] = 2
    """Divisor of the marching step for rendering. Larger values give finer images and slower
    rendering."""
    near: Annotated[float | None, Range(0.0)] = None
    """Near plane: minimum distance of samples from the camera, in scene units, in training and in
    renderings. By default (auto), the near plane is three quarters of the distance between the
    cameras and the nearest sparse points, or 0.1 without sparse points. A larger near plane
    prevents haze in front of the cameras."""
    cone: Annotated[float, Range(0.0, 0.1)] = 1 / 256
    """Length of distant marching steps as a fraction of their distance from the camera, in scenes
    larger than the unit cube. Larger values are faster but give coarser backgrounds. With 0, all
    steps have the same length. In renderings, the fraction is at most 1/128."""
    max_samples: Annotated[int, Range(2**11, 2**24)] = 2**17
    """Maximum number of samples in a training step. Larger values allow more rays per step, slow
    down each step, and use more memory."""
    march_factor: Annotated[int, Range(1, 64)] = 8
    """Number of samples that marching generates in a training step, as a multiple of max-samples.
    Training uses only the samples that contribute to the colors of their rays. Larger values allow
    more rays per step and use more memory."""
    thin_below: Annotated[float, Range(0.0, 1.0)] = 0.01
    """Threshold on a sample's weight in the color of its ray, in scenes larger than the unit cube.
    Only a random subset of the samples below the threshold is kept. Larger values allow more rays
    per step but give noisier gradients. With 0, all visible samples are kept. nerfacc's
    `alpha_thre` is a threshold on the opacity, below which all samples are skipped."""

    @property
    def step(self) -> float:
        """Length of the shortest marching step, in scene units."""
        return sqrt(3.0) / self.steps

    @property
    def near_plane(self) -> float:
        """Near plane `near` in scene units, which must not be automatic."""
        return known("march.near", self.near)


@dataclass(frozen=True)
class OccupancyConfig(Settings):
    """Settings of the occupancy grid and its updates."""

    _prefix = "occupancy."

    resolution: Annotated[int, Range(16, 256)] = 128
    """Number of cells along each axis of a cascade, a multiple of 16. Larger values avoid more
    samples in empty space, but the grid uses more memory."""
    threshold: Annotated[float, Range(0.0)] = 0.01
    """Threshold on the optical thickness of the shortest marching step in a cell. Cells above the
    threshold are occupied. If the mean optical thickness of the cells in the unit cube is smaller,
    the mean replaces this threshold. With larger values, marching skips more cells."""
    decay: Annotated[float, Range(0.0, 1.0)] = 0.95
    """Decay factor of all cells' density estimates in each update. With smaller values, cells
    become empty sooner."""
    interval: Annotated[int, Range(1)] = 16
    """Maximum number of training steps between grid updates. The interval is 4 steps at the start
    of training and grows to this maximum."""
    warmup_steps: Annotated[int, Range(0)] = 256
    """Number of training steps during which updates visit all cells evenly. Later updates prefer
    occupied cells."""
    warmup_fraction: Annotated[float, Range(0.001, 1.0)] = 1.0
    """Fraction of the cells that an update visits during the warm-up. An update visits at most 2^21
    cells."""
    fraction: Annotated[float, Range(0.001, 1.0)] = 0.25
    """Fraction of the cells that an update visits after the warm-up. Half of the visited cells are
    drawn from all cells and half from the occupied cells."""
    visibility_rays: Annotated[int, Range(16, 2**20)] = 2**15
    """Number of training rays that each update uses to determine which cells are visible."""
    visibility_patience: Annotated[int, Range(1)] = 128
    """Number of consecutive updates without a visible sample after which a cell counts as empty.
    Early in training, fewer updates are sufficient."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resolution % 16:  # a brick could be partly inside a smaller cascade
            raise InputError(
                f"occupancy.resolution is {self.resolution}; expected a multiple of 16"
            )

    def interval_at(self, step: int) -> int:
        """Return the number of training steps between two updates of the grid at `step`."""
        return min(max(FIRST_INTERVAL, step // 16), self.interval)
