"""`Method`: custom components for training, namely field, sampler, and losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nerfmac.common import InputError, checks
from nerfmac.config import Config
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.field import Field
from nerfmac.fields.vanilla import VanillaField
from nerfmac.geometry import Bounds
from nerfmac.sampling.hierarchical import HierarchicalSampler
from nerfmac.sampling.occupancy import MarchingSampler
from nerfmac.sampling.sampler import Sampler
from nerfmac.training.losses import Loss

# Classes or functions of the configuration of the run, the scene cube, and the field.
FieldFunction = Callable[[Config, Bounds], Field]
SamplerFunction = Callable[[Config, Bounds, Field], Sampler]


@dataclass(frozen=True)
class Method:
    """Custom field, sampler, and losses. If a component is None, training uses the configured one.

    Pass the method when you start a run, and again when you load the run. A run's files contain
    only the names of custom components, and loading a run never imports code that a file names.

    Examples:
        >>> def absolute_error(rays, target):
        ...     return mx.abs(rays.color - target).mean(axis=1, keepdims=True)
        >>> method = nerfmac.Method(loss=absolute_error)
        >>> run = nerfmac.train(scene, "tiny", nerfmac.Goal(steps=20), method=method)
    """

    field: FieldFunction | None = None
    """Class of a field, or function that returns a field. It is called with the configuration of
    the run, in which no setting is automatic, and with the scene cube."""
    sampler: SamplerFunction | None = None
    """Class of a sampler, or function that returns a sampler. It is called with the configuration
    of the run, the scene cube, and the field."""
    loss: Loss | None = None
    """Color loss, a function `loss(rays, target)` as described in `nerfmac.training.losses`."""
    extra_losses: Sequence[Loss] = ()
    """Additional loss terms, such as a function of `rays.weights`. The additional terms do not
    replace the configured terms."""

    def __post_init__(self) -> None:
        """Raise `InputError` if a component has the wrong type."""
        checks.kind("extra_losses", self.extra_losses, Sequence, "a list of functions")
        parts = [(name, getattr(self, name)) for name in _ARGUMENTS if name != "extra_losses"]
        for name, part in [*parts, *(("extra_losses", loss) for loss in self.extra_losses)]:
            is_object = isinstance(part, Field | Sampler)
            if part is not None and (is_object or not callable(part)):
                what = f"an object of the class {type(part).__name__}" if is_object else repr(part)
                raise InputError(f"{name} is {what}; expected {_ARGUMENTS[name]}")

    @property
    def own(self) -> dict[str, str]:
        """Class or function names of the custom field, sampler, and color loss, keyed by
        component."""
        parts = {name: getattr(self, name) for name in ("field", "sampler", "loss")}
        return {
            name: getattr(part, "__name__", type(part).__name__)
            for name, part in parts.items()
            if part is not None
        }

    @property
    def has_components(self) -> bool:
        """Whether the method has a custom field or sampler."""
        return self.field is not None or self.sampler is not None

    def components(self, config: Config, bounds: Bounds) -> tuple[Field, Sampler]:
        """Create the field and the sampler. Components that the method does not set are taken from
        the configuration.

        Args:
            config: Configuration of the run.
            bounds: The scene cube.

        Returns:
            Field and sampler.

        Raises:
            InputError: If a function does not return a field or a sampler, or if the field and the
                sampler have parameters with the same name.
        """
        is_hash = config.model == "hash"
        field = (self.field or (EncodedField.of if is_hash else _vanilla_field))(config, bounds)
        checks.kind("the field", field, Field, "a nerfmac.Field from the function Method.field")
        configured = _marching_sampler if is_hash else _hierarchical_sampler
        sampler = (self.sampler or configured)(config, bounds, field)
        checks.kind("the sampler", sampler, Sampler, "a nerfmac.Sampler from Method.sampler")
        if shared := sorted(field.parameter_specs.keys() & sampler.parameter_specs.keys()):
            raise InputError(
                f"the field {type(field).__name__} and the sampler {type(sampler).__name__} both "
                f"have parameters with the names {', '.join(shared)}; rename those of one of them"
            )
        return field, sampler


_ARGUMENTS = {
    "field": "a class of nerfmac.Field, or a function of (config, bounds)",
    "sampler": "a class of nerfmac.Sampler, or a function of (config, bounds, field)",
    "loss": "a function of (rays, target)",
    "extra_losses": "functions of (rays, target)",
}


def _vanilla_field(config: Config, bounds: Bounds) -> Field:
    return VanillaField(config.vanilla, bounds)


def _marching_sampler(config: Config, bounds: Bounds, field: Field) -> Sampler:
    return MarchingSampler(config.march, config.occupancy, bounds, field.density)


def _hierarchical_sampler(config: Config, bounds: Bounds, _: Field) -> Sampler:
    vanilla, near = config.vanilla, config.march.near_plane
    coarse, counts = VanillaField(vanilla, bounds, "coarse"), (vanilla.coarse, vanilla.fine)
    return HierarchicalSampler(coarse, bounds, near, counts, config.train.huber)
