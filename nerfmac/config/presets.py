"""`Config`, a class with all settings of a run, and `PRESETS`, the predefined configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import (
    MISSING,
    asdict,
    dataclass,
    field,
    fields as fields_of,
    is_dataclass,
    replace,
)
from typing import Annotated, Any, Literal, get_args

from nerfmac.common import Fields, InputError, checks, read_as
from nerfmac.config.fields import HashGridConfig, NetworkConfig, VanillaConfig
from nerfmac.config.sampling import MarchConfig, OccupancyConfig
from nerfmac.config.settings import Range, Settings
from nerfmac.config.training import OptimizerConfig, RefineConfig, TrainConfig

PRESET_NAMES = ("tiny", "small", "base", "big")
AUTO = "auto"
"""Name of the preset `base` for a GPU whose speed is unknown. `nerfmac.training.resolve` replaces
it by settings for the time of the run."""

Model = Literal["hash", "vanilla"]
Encoding = Literal["hash", "dense", "frequency"]


@dataclass(frozen=True, repr=False)
class Config(Settings):
    """All settings of a run, which are saved in the run's folder as `config.json`.

    `Config()` is the preset `base`. `nerfmac.config.PRESETS` contains all presets. Use
    `nerfmac.config.override` to change individual settings.

    Raises:
        InputError: If a setting has a wrong type or value, or if `preset` is not `base` but all
            other settings have their default values.
    """

    preset: str = "base"  # Preset that the settings were taken from.
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0
    """Seed of all random numbers, from 0 to 2^32 - 1."""
    deterministic: bool = False
    """Sum gradients on a GPU as integers, so that training is bitwise reproducible for the same
    seed and number of steps. Training on a CPU is always bitwise reproducible."""
    model: Model = "hash"
    """Model to train. hash is an encoding with small MLPs. vanilla is the original NeRF with two
    large MLPs (Mildenhall et al. 2020)."""
    encoding: Encoding = "hash"
    """Position encoding for the model hash: a hash grid, dense grids without hashing, or sines and
    cosines."""
    grid: HashGridConfig = field(default_factory=HashGridConfig)
    networks: NetworkConfig = field(default_factory=NetworkConfig)
    vanilla: VanillaConfig = field(default_factory=VanillaConfig)
    march: MarchConfig = field(default_factory=MarchConfig)
    occupancy: OccupancyConfig = field(default_factory=OccupancyConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)

    def __post_init__(self) -> None:
        checks.choice("preset", self.preset, (*PRESET_NAMES, AUTO))
        parts = [part.name for part in fields_of(self) if part.default is MISSING]
        if self.preset not in ("base", AUTO) and all(
            getattr(self, x) == getattr(Config(), x) for x in parts
        ):
            raise InputError(
                f"preset is {self.preset!r}, but all settings have their default values; pass "
                f"preset={self.preset!r} to nerfmac.train or nerfmac.Viewer, or take "
                f"nerfmac.config.PRESETS[{self.preset!r}]"
            )
        if self.train.grow_at and self.encoding != "hash":
            raise InputError(
                f"train.grow_at requires the encoding hash, but the encoding is {self.encoding}; "
                "remove --train.grow-at"
            )
        super().__post_init__()

    def __repr__(self) -> str:
        """Return the preset name, and a line for each setting that differs from the preset."""
        of_preset = dict(flattened(self.unchanged.to_json()))
        changed = [item for item in flattened(self.to_json()) if item[1] != of_preset[item[0]]]
        width = max((len(name) for name, _ in changed), default=0)
        lines = [f"  {name:{width}}  {value!r}, not {of_preset[name]!r}" for name, value in changed]
        named = f"preset {self.preset}" + (", model vanilla" if self.model == "vanilla" else "")
        return "\n".join([f"Config({named}{' with' if lines else ''}", *lines]) + ")"

    @property
    def unchanged(self) -> Config:
        """The preset that this configuration is based on, without any changed settings."""
        return preset_of(self.model, self.preset)

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values.

        Returns:
            Dictionary of settings. Each group of settings is a nested dictionary.
        """
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Config:
        """Create a configuration from JSON values.

        Args:
            values: Values in the format of `to_json`. Missing settings get their default values.

        Returns:
            Configuration.

        Raises:
            InputError: If a key is unknown, or a value has the wrong type or is out of range.
        """
        return read_as(cls, Fields.of(values, "config"))


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name, such as "train.steps", and the value of each setting in the JSON
    object `values`."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def override(config: Config, **changes: Any) -> Config:
    """Replace some settings of a configuration.

    Args:
        config: Configuration to start from, such as `PRESETS["small"]`.
        changes: New values, keyed by setting. For a group of settings, such as `train`, a
            dictionary of new values.

    Returns:
        Configuration with the new values.

    Raises:
        InputError: If a setting does not exist or a value is invalid.

    Examples:
        >>> config = nerfmac.config.PRESETS["small"]
        >>> nerfmac.config.override(config, seed=1, train={"steps": 9}).train.steps
        9
    """
    for name, change in changes.items():
        checks.choice("setting", name, [setting.name for setting in fields_of(config)])
        part = getattr(config, name)
        if is_dataclass(part) and not isinstance(part, type) and isinstance(change, dict):
            for key in change:
                checks.choice(f"setting of {name}", key, [each.name for each in fields_of(part)])
            changes[name] = replace(part, **change)
    return replace(config, **changes)


# Rays have few steps: the shortest step and its growth with distance are four times as large as in
# base.
_CPU_MARCH = MarchConfig(steps=256, cone=1 / 64, march_factor=4)
_CPU_OPTIMIZER = OptimizerConfig(networks=0.5)

PRESETS: dict[str, Config] = {
    "base": Config(),
    "big": override(
        Config(),
        preset="big",
        grid=HashGridConfig(log2_entries=21),
        march=MarchConfig(max_samples=2**18),
        train=TrainConfig(steps=30_000),
    ),
    # This preset is for CPUs, where the time per sample dominates. It has narrow networks with one
    # hidden layer each, few steps along a ray, small tables, and few rays per step. With an initial
    # density of 1, one or two flowers of the built-in scene vanished permanently with each of three
    # seeds. With an initial density of exp(-2), no flower vanished. march_factor is 1, because a
    # larger factor finds too few additional samples to be worth the time. Thinning nevertheless
    # saves more time than it costs.
    "small": override(
        Config(),
        preset="small",
        grid=HashGridConfig(levels=8, features=4, log2_entries=16),
        networks=NetworkConfig(width=32, color_layers=1, density_bias=2),
        march=replace(_CPU_MARCH, max_samples=2**15, march_factor=1),
        occupancy=OccupancyConfig(
            resolution=64,
            warmup_fraction=0.25,
            fraction=0.125,
            visibility_rays=2**10,
            visibility_patience=512,
        ),
        optimizer=_CPU_OPTIMIZER,
        train=TrainConfig(steps=5_000, rays=1024, max_rays=2**14),
    ),
    "tiny": override(
        Config(),
        preset="tiny",
        grid=HashGridConfig(levels=8, features=2, log2_entries=14),
        networks=NetworkConfig(width=32, color_layers=1, density_bias=2),
        march=replace(_CPU_MARCH, max_samples=2**13),
        occupancy=OccupancyConfig(
            resolution=32,
            warmup_fraction=0.5,
            fraction=0.25,
            visibility_rays=2**9,
            visibility_patience=512,
        ),
        optimizer=_CPU_OPTIMIZER,
        train=TrainConfig(steps=1_000, rays=256, max_rays=2**12),
    ),
}


# Network sizes, rays per step, and sample budget of the vanilla model for each preset. The sizes in
# the paper are for a GPU: on a CPU, each step would take a minute.
_VANILLA = {
    "big": (VanillaConfig(), 4096, 2**20),
    "base": (VanillaConfig(), 4096, 2**20),
    "small": (VanillaConfig(width=64, layers=4, skip=1, coarse=32, fine=32), 512, 2**16),
    "tiny": (VanillaConfig(width=32, layers=3, skip=0, coarse=16, fine=16), 128, 2**13),
}


def vanilla(config: Config) -> Config:
    """Return the preset `config` adapted to the vanilla model (Mildenhall et al. 2020), with the
    squared error as the loss. If the networks are smaller than in the paper, the learning rate is
    four times as high as in the paper.
    """
    sizes, rays, max_samples = _VANILLA[config.preset]
    is_full = sizes == VanillaConfig()
    return replace(
        config,
        model="vanilla",
        vanilla=sizes,
        march=replace(config.march, max_samples=max_samples),
        optimizer=OptimizerConfig(
            rate=5e-4 if is_full else 2e-3,
            beta2=0.999,
            epsilon=1e-7,
            l2=0.0,
            warmup_steps=0,
            hold=0.0,
            final_rate=0.1,
            average=0.0,
            networks=1.0,
        ),
        train=TrainConfig(
            steps=200_000 if is_full else config.train.steps,
            rays=rays,
            max_rays=rays,
            huber=1.0,  # half the squared error, because colors are in [0, 1]
            gradient_scaling=0.0,
            loss_scale=1.0,
        ),
    )


def preset_of(model: str, name: str) -> Config:
    """Return the preset `tiny`, `small`, `base`, or `big`, adapted to a model.

    The model is `hash` for Instant-NGP (Müller et al. 2022), or `vanilla` for the original NeRF
    (Mildenhall et al. 2020).
    """
    config = PRESETS["base" if name == AUTO else name]
    return vanilla(config) if model == "vanilla" else config


BASE_MEMORY = 2.4e9
"""GPU memory in bytes that `auto` requires for the preset base: twice the memory of the parameters
and activations, because images, MLX's buffer cache, and the viewer also use memory. On a Mac with
8 GB, the GPU can use two thirds of the memory."""


def preset(name: str, device: str, memory_bytes: int, model: str = "hash") -> Config:
    """Return a preset, adapted to a model (see `preset_of`). The name `auto` selects a preset that
    fits the device (`metal`, `cuda`, or `cpu`) and its memory."""
    checks.choice("preset", name, (AUTO, *PRESETS))
    checks.choice("model", model, get_args(Model))
    if name != AUTO:
        return preset_of(model, name)
    if device == "cpu" or memory_bytes < BASE_MEMORY:
        return preset_of(model, "small")
    config = preset_of(model, "base")
    return replace(config, preset=AUTO) if device == "metal" and model == "hash" else config
