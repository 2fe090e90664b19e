"""All settings of a run: small frozen records with one set of defaults, read from strict JSON.

The defaults are Instant-NGP's (Müller et al. 2022, and the `base.json` of its authors); comments
name the differences. Lengths are in scene units: an object's scene is the unit cube. A field's
comment is also the help text of its flag, as `nerfmac train --help` prints it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import sqrt
from typing import Any, Literal

from nerfmac import checks
from nerfmac.checks import InputError
from nerfmac.json_reader import Fields
from nerfmac.limits import FEATURES, WIDEST_FEATURES, WIDEST_LAYERS, WIDTHS

FILL = 0.95
"""Fraction of a step's slots that its number of rays is chosen to fill."""
PRESET_NAMES = ("tiny", "small", "base", "big")


@dataclass(frozen=True)
class HashGridConfig:
    """The multiresolution hash encoding."""

    levels: int = 16  # Number of resolutions; times features, a multiple of 16.
    features: int = 2  # Numbers per entry of a table: 1, 2, 4 or 8.
    log2_entries: int = 19  # Most entries of a level's table, as a power of two.
    coarsest: int = 16  # Cells along an axis of the scene at the first level.
    finest: int = 0  # Cells along a scene unit at the last level; 0: by the pictures' pixels.

    def __post_init__(self) -> None:
        checks.number("grid.levels", self.levels, low=2, high=32, whole=True)
        checks.number("grid.features", self.features, whole=True)
        if self.features not in FEATURES:
            raise InputError(f"grid.features is {self.features}; expected 1, 2, 4 or 8")
        checks.number("grid.log2_entries", self.log2_entries, low=8, high=24, whole=True)
        checks.number("grid.coarsest", self.coarsest, low=2, whole=True)
        if self.finest:
            checks.number("grid.finest", self.finest, low=self.coarsest, high=2**20, whole=True)
        every = self.levels * self.features
        if every % 16 or every > WIDEST_FEATURES:
            raise InputError(
                f"grid.levels * grid.features is {every}; expected a multiple of 16, the networks' "
                f"unit of width, up to {WIDEST_FEATURES}"
            )

    def for_pixels(self, per_unit: float) -> HashGridConfig:
        """With `finest` chosen, where it is 0, for pictures of so many pixels a scene unit.

        Five cells for four pixels. With finer ones the table learns what no other view confirms: on
        the full-size chair 1024 cells for 835 pixels beat 512, and on Lego at half the size 512 for
        417 beat 1024 and 2048.
        """
        cells = round(min(max(1.25 * per_unit, 4 * self.coarsest), 4096))
        return self if self.finest else replace(self, finest=cells)


@dataclass(frozen=True)
class NetworkConfig:
    """The two stacked MLPs: density, then colour."""

    width: int = 64  # Neurons of a hidden layer: 16, 32, 64 or 128.
    density_layers: int = 1  # Hidden layers of the density network.
    colour_layers: int = 2  # Hidden layers of the colour network.
    thinness: int = 0  # Transparent pictures: the first fog has density exp(-thinness), else 1.

    def __post_init__(self) -> None:
        checks.number("networks.width", self.width, whole=True)
        if self.width not in WIDTHS:
            raise InputError(f"networks.width is {self.width}; expected 16, 32, 64 or 128")
        for name, low, high in (
            ("density_layers", 1, 4),
            ("colour_layers", 1, 4),
            ("thinness", 0, 8),
        ):
            checks.number(f"networks.{name}", getattr(self, name), low=low, high=high, whole=True)
        layers = self.density_layers + self.colour_layers
        if layers > WIDEST_LAYERS and self.width == WIDTHS[-1]:
            raise InputError(
                f"networks.width is {self.width}; expected up to 64 with {layers} hidden layers"
            )


@dataclass(frozen=True)
class VanillaConfig:
    """NeRF as first published (Mildenhall et al. 2020): its two equal networks and its samples."""

    width: int = 256  # Neurons of a hidden layer; the last, with the direction, has half of them.
    layers: int = 8  # Hidden layers before the density.
    skip: int = 4  # Hidden layer, the first being 0, after which the position is fed in again.
    position_frequencies: int = 10  # Sines and cosines of each coordinate of a position.
    direction_frequencies: int = 4  # Sines and cosines of each coordinate of a direction.
    coarse: int = 64  # Evenly spread samples of a ray, for the coarse network.
    fine: int = 128  # Samples of a ray that are added where the coarse network finds matter.

    def __post_init__(self) -> None:
        checks.number("vanilla.width", self.width, low=2, high=1024, whole=True)
        if self.width % 2:
            raise InputError(f"vanilla.width is {self.width}; expected an even number")
        checks.number("vanilla.layers", self.layers, low=2, high=32, whole=True)
        checks.number("vanilla.skip", self.skip, low=0, high=self.layers - 2, whole=True)
        # Beyond 16 frequencies float32 has few bits left of a sine's argument.
        for name in ("position_frequencies", "direction_frequencies"):
            checks.number(f"vanilla.{name}", getattr(self, name), low=1, high=16, whole=True)
        checks.number("vanilla.coarse", self.coarse, low=2, high=1024, whole=True)
        checks.number("vanilla.fine", self.fine, low=1, high=1024, whole=True)


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
    patience: int = 128  # Updates without light, after warm-up, until a cell counts as empty.

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


@dataclass(frozen=True)
class OptimiserConfig:
    """Adam, its schedule, and the average of the parameters that pictures are rendered with.

    In a run of known length the learning rate stays until `hold` of it is done and then falls
    exponentially. (Instant-NGP: 0.01 for all, times 0.33 at fixed steps.) Networks, which every
    sample moves, bear a smaller rate than tables. L2 would make tables forget.
    """

    rate: float = 3e-2  # Learning rate at the start.
    networks: float = 0.2  # Factor on the learning rate of the networks' weights.
    beta1: float = 0.9  # Adam's decay of the mean gradient, per step.
    beta2: float = 0.99  # Adam's decay of the mean squared gradient; more than beta1^2.
    epsilon: float = 1e-15  # Adam's addend to the root of the mean squared gradient.
    l2: float = 1e-7  # Factor of the L2 penalty on the networks' weights.
    hold: float = 0.7  # Fraction of the run after which the learning rate begins to fall.
    final_rate: float = 0.01  # Learning rate at the end, as a fraction of that at the start.
    average: float = 0.95  # Factor on the running average of the parameters at every step.

    def __post_init__(self) -> None:
        for name in ("rate", "epsilon", "final_rate"):
            checks.number(f"optimiser.{name}", getattr(self, name), low=1e-30, high=checks.LARGEST)
        for name in ("beta1", "hold", "average"):
            checks.number(f"optimiser.{name}", getattr(self, name), low=0.0, high=0.9999)
        checks.number("optimiser.beta2", self.beta2, low=self.beta1**2 + 1e-6, high=0.9999)
        checks.number("optimiser.networks", self.networks, low=1e-3, high=1e3)
        checks.number("optimiser.l2", self.l2, low=0.0)

    def rate_at(self, progress: float) -> float:
        """The learning rate when `progress`, in [0, 1], of the run is done."""
        falling = max(0.0, (progress - self.hold) / (1.0 - self.hold))
        return self.rate * self.final_rate**falling


@dataclass(frozen=True)
class TrainConfig:
    """A training step, and how long to go on."""

    steps: int = 20_000  # Training steps of a run, unless --steps or --seconds says otherwise.
    slots: int = 2**17  # Samples that a step has room for.
    candidates: int = 4  # Samples that are tried for light, over slots; 0: all are kept untried.
    rays: int = 4096  # Rays of the first step; later steps have as many as fill the slots.
    most_rays: int = 2**16  # Most rays of a step.
    huber: float = 0.1  # Error, of colours in [0, 1], at which the loss goes from square to linear.
    loss_scale: float = 1024.0  # Factor that lifts gradients above half precision's least numbers.
    blend: Literal["srgb", "linear"] = "srgb"  # Light in which pictures' alpha is blended.

    def __post_init__(self) -> None:
        checks.number("train.steps", self.steps, low=1, whole=True)
        checks.number("train.slots", self.slots, low=2**11, high=2**24, whole=True)
        checks.number("train.candidates", self.candidates, low=0, high=64, whole=True)
        checks.number("train.most_rays", self.most_rays, low=16, high=2**24, whole=True)
        checks.number("train.rays", self.rays, low=16, high=self.most_rays, whole=True)
        checks.number("train.huber", self.huber, low=1e-6)
        checks.number("train.loss_scale", self.loss_scale, low=1.0, high=2.0**16)
        checks.choice("train.blend", self.blend, ("srgb", "linear"))

    def rays_for(self, samples_per_ray: float, most: int | None = None) -> int:
        """The largest number of rays whose samples fit, among powers of the eighth root of two.

        For each new number of rays the step is traced again, which takes as long as half a step.
        So only few numbers are used, but enough of them to leave few slots without a sample.
        `most` is a limit in addition to `most_rays`.
        """
        most = self.most_rays if most is None else min(most, self.most_rays)
        wanted = min(FILL * self.slots / max(samples_per_ray, 1e-3), most)
        rays, rung = 16, 32
        while (above := round(2 ** (rung / 8) / 16) * 16) <= wanted:
            rays, rung = max(rays, above), rung + 1
        return rays


@dataclass(frozen=True)
class Config:
    """One run; saved with it as `config.json`."""

    preset: str = "base"  # The preset that the numbers below were taken from.
    seed: int = 0  # Seed of all random numbers, from 0 to 2^32 - 1.
    model: Literal["hash", "vanilla"] = "hash"
    """hash: an encoding and small networks. vanilla: two large MLPs (Mildenhall et al. 2020)."""
    encoding: Literal["hash", "dense", "frequency"] = "hash"
    """What model hash encodes positions with: a hash grid, grids without hashing, sines."""
    grid: HashGridConfig = field(default_factory=HashGridConfig)
    networks: NetworkConfig = field(default_factory=NetworkConfig)
    vanilla: VanillaConfig = field(default_factory=VanillaConfig)
    march: MarchConfig = field(default_factory=MarchConfig)
    occupancy: OccupancyConfig = field(default_factory=OccupancyConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        checks.choice("preset", self.preset, PRESET_NAMES)
        checks.number("seed", self.seed, low=0, high=2**32 - 1, whole=True)
        checks.choice("model", self.model, ("hash", "vanilla"))
        checks.choice("encoding", self.encoding, ("hash", "dense", "frequency"))

    def for_scene(self, pixels_per_unit: float, *, has_alpha: bool) -> Config:
        """With what depends on the pictures: their resolution, and whether they are transparent."""
        networks = self.networks if has_alpha else replace(self.networks, thinness=0)
        return replace(self, grid=self.grid.for_pixels(pixels_per_unit), networks=networks)

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Config:
        """The configuration from JSON values; absent keys keep their defaults.

        Raises `InputError` for a key that does not exist or a value of the wrong type or size.
        """
        return _from_json(cls, Fields.of(values, "config"))


def override(config: Config, **changes: Any) -> Config:
    """`config` with some fields of its parts replaced, as in `override(c, train={"steps": 9})`."""
    parts: dict[str, Any] = {}
    for name, change in changes.items():
        part: Any = getattr(config, name)
        parts[name] = replace(part, **change) if isinstance(change, dict) else change
    return replace(config, **parts)


def _from_json(kind: Any, given: Fields) -> Any:
    given.allow_only(*(each.name for each in fields(kind)))
    default, arguments = kind(), {}
    for name, value in given.values.items():
        old = getattr(default, name)
        if is_dataclass(old):
            part = Fields.of(value, f"{given.where}.{name}")
            arguments[name] = _from_json(type(old), part)
        else:
            arguments[name] = given.like(name, old)
    return kind(**arguments)
