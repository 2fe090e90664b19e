"""`Config`: all settings of a run, read from strict JSON and written to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Literal, get_type_hints

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.config.fields import HashGridConfig, NetworkConfig, VanillaConfig
from nerfmac.config.optimizer import OptimizerConfig
from nerfmac.config.refine import RefineConfig
from nerfmac.config.sampling import MarchConfig, OccupancyConfig
from nerfmac.config.training import RanksConfig, TrainConfig

PRESET_NAMES = ("tiny", "small", "base", "big")

BY_MODEL: dict[str, dict[str, Config]] = {"hash": {}, "vanilla": {}}
"""The presets by model and name; `config.presets` fills it."""

_LEFT_OUT: Any = None
"""Default of a part that the caller leaves out: `Config` puts preset base's part there."""


@dataclass(frozen=True, repr=False)
class Config:
    """All settings of a run, saved with it as `config.json`.

    `Config()` is preset base. `nerfmac.config.presets.PRESETS` has the other presets, and
    `override` replaces some of their settings. Raises `InputError` for `preset` with another
    preset's name if any part of the settings is left out.
    """

    preset: str = "base"  # Preset that the settings were taken from.
    seed: int = 0  # Seed of all random numbers, from 0 to 2^32 - 1.
    deterministic: bool = False
    """Make training on a GPU repeatable bit for bit, for the same seed and steps: gradients are
    summed as integers, in any order. Training on a CPU always is repeatable."""
    model: Literal["hash", "vanilla"] = "hash"
    """hash: an encoding and small networks. vanilla: two large MLPs (Mildenhall et al. 2020)."""
    encoding: Literal["hash", "dense", "frequency"] = "hash"
    """Encoding of positions for model hash: a hash grid, dense grids without hashing, or sines."""
    grid: HashGridConfig = _LEFT_OUT
    networks: NetworkConfig = _LEFT_OUT
    vanilla: VanillaConfig = _LEFT_OUT
    march: MarchConfig = _LEFT_OUT
    occupancy: OccupancyConfig = _LEFT_OUT
    optimizer: OptimizerConfig = _LEFT_OUT
    train: TrainConfig = _LEFT_OUT
    ranks: RanksConfig = _LEFT_OUT
    refine: RefineConfig = _LEFT_OUT

    def __post_init__(self) -> None:
        checks.choice("preset", self.preset, PRESET_NAMES)
        left_out = [
            part.name
            for part in fields(Config)
            if part.default is _LEFT_OUT and getattr(self, part.name) is _LEFT_OUT
        ]
        if left_out and self.preset != "base":
            raise InputError(
                f"preset is {self.preset!r}, but {left_out[0]} is left out and would be base's; "
                f"give preset={self.preset!r} to nerfmac.train or nerfmac.Viewer, or take "
                f"nerfmac.config.presets.PRESETS[{self.preset!r}]"
            )
        for name in left_out:
            object.__setattr__(self, name, get_type_hints(Config)[name]())  # the record is frozen
        checks.number("seed", self.seed, low=0, high=2**32 - 1, whole=True)
        checks.flag("deterministic", self.deterministic)
        checks.choice("model", self.model, ("hash", "vanilla"))
        checks.choice("encoding", self.encoding, ("hash", "dense", "frequency"))

    def __repr__(self) -> str:
        """The preset's name, and a line for each setting that differs from the preset."""
        of_preset = dict(flattened(self.unchanged.to_json()))
        changed = [item for item in flattened(self.to_json()) if item[1] != of_preset[item[0]]]
        width = max((len(name) for name, _ in changed), default=0)
        lines = [f"  {name:{width}}  {value!r}, not {of_preset[name]!r}" for name, value in changed]
        named = f"preset {self.preset}" + (", model vanilla" if self.model == "vanilla" else "")
        return "\n".join([f"Config({named}{' with' if lines else ''}", *lines]) + ")"

    @property
    def unchanged(self) -> Config:
        """The preset that the settings were taken from."""
        return BY_MODEL[self.model][self.preset]

    def for_scene(
        self, pixels_per_unit: float, *, has_alpha: bool, near_plane: float = 0.0
    ) -> Config:
        """The configuration with the settings that depend on the scene.

        Args:
            pixels_per_unit: resolution of the images, in pixels per scene unit.
            has_alpha: whether the images have an alpha channel.
            near_plane: distance from the cameras at which the scene begins; 0: unknown.
        """
        networks = self.networks if has_alpha else replace(self.networks, density_bias=0)
        near = self.march.near_training or (near_plane if near_plane > self.march.near else 0.0)
        grid, march = self.grid.for_pixels(pixels_per_unit), replace(self.march, near_training=near)
        return replace(self, grid=grid, networks=networks, march=march)

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Config:
        """The configuration from JSON values; absent keys keep their defaults.

        Raises `InputError` for an unknown key, or a value of the wrong type or size.
        """
        return _from_json(cls, Fields.of(values, "config"))


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings in the JSON `values` by their dotted names, such as "train.steps"."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """`config` with the JSON values of some `settings`, by names as `flattened` yields them.

    Raises `InputError` for a name that no setting has, and for a value of the wrong type or size.
    """
    values = config.to_json()
    for name, value in settings.items():
        part, _, key = name.rpartition(".")
        of_part = values.get(part) if part else values
        if not isinstance(of_part, dict) or key not in of_part:
            raise InputError(f"{name} is no setting; expected a name such as train.steps")
        of_part[key] = value
    return Config.from_json(values)


def override(config: Config, **changes: Any) -> Config:
    """`config` with some settings replaced, as in `override(config, train={"steps": 9})`."""
    parts: dict[str, Any] = {}
    for name, change in changes.items():
        part: Any = getattr(config, name)
        parts[name] = replace(part, **change) if isinstance(change, dict) else change
    return replace(config, **parts)


def _from_json(kind: Any, json: Fields) -> Any:
    json.allow_only(*(setting.name for setting in fields(kind)))
    default = kind()
    arguments = {setting.name: getattr(default, setting.name) for setting in fields(kind)}
    for name, value in json.values.items():
        old = getattr(default, name)
        if is_dataclass(old):
            part = Fields.of(value, f"{json.where}.{name}")
            arguments[name] = _from_json(type(old), part)
        else:
            arguments[name] = json.flag_or_null(name) if old is None else json.like(name, old)
    return kind(**arguments)
