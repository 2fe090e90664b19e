"""`Method`: custom components for training, namely field, sampler, and losses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nerfmac.common import InputError, checks
from nerfmac.config import Config
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import encoding_of
from nerfmac.fields.field import Field, ParameterSpec
from nerfmac.fields.vanilla import VanillaField
from nerfmac.geometry import Bounds
from nerfmac.ops.penalty import PenaltyWeights
from nerfmac.sampling.hierarchical import HierarchicalSampler
from nerfmac.sampling.occupancy import MarchingSampler
from nerfmac.sampling.sampler import Sampler
from nerfmac.training.losses import Loss, configured_penalty_weights, huber_loss


class Parts(NamedTuple):
    """Field, sampler, and losses that a trainer uses."""

    field: Field
    sampler: Sampler
    loss: Loss
    """Color loss."""
    extra_losses: tuple[Loss, ...]
    """Additional loss terms."""
    penalty_weights: PenaltyWeights | None
    """Weights of the losses that are penalties of samples, or None if all are 0."""

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declarations of the parameters of the field and the sampler, keyed by name."""
        return {**self.field.parameter_specs, **self.sampler.parameter_specs}


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

    field: Field | None = None
    sampler: Sampler | None = None
    loss: Loss | None = None
    """Color loss, a function `loss(rays, target)` as described in `nerfmac.training.losses`."""
    extra_losses: Sequence[Loss] = ()
    """Additional loss terms, such as a function of `rays.weights`. The additional terms do not
    replace the configured terms."""

    def __post_init__(self) -> None:
        """Raise `InputError` if a component has the wrong type."""
        if self.field is not None:
            checks.kind("field", self.field, Field, "an object of a class of nerfmac.Field")
        if self.sampler is not None:
            checks.kind("sampler", self.sampler, Sampler, "an object of a class of nerfmac.Sampler")
        checks.kind("extra_losses", self.extra_losses, Sequence, "a list of functions")
        losses = [("extra_losses", loss) for loss in self.extra_losses]
        for name, loss in [*losses, *([("loss", self.loss)] if self.loss is not None else [])]:
            if not callable(loss):
                raise InputError(f"{name} is {loss!r}; expected a function of (rays, target)")

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

    def parts(self, config: Config, bounds: Bounds) -> Parts:
        """Return all components that training uses.

        Args:
            config: Configuration of the run.
            bounds: The scene cube.

        Returns:
            Field, sampler, and losses. Components that the method does not set are taken from the
            configuration.

        Raises:
            InputError: If the configured sampler cannot sample a custom field.
        """
        field, sampler = _model(config, bounds, self.field)
        sampler = self.sampler or sampler
        if shared := sorted(field.parameter_specs.keys() & sampler.parameter_specs.keys()):
            raise InputError(
                f"the field {type(field).__name__} and the sampler {type(sampler).__name__} both "
                f"have parameters with the names {', '.join(shared)}; rename those of one of them"
            )
        loss = self.loss or huber_loss(config.train.huber)
        weights = configured_penalty_weights(config.train, bounds)
        return Parts(field, sampler, loss, tuple(self.extra_losses), weights)


def _model(config: Config, bounds: Bounds, own: Field | None) -> tuple[Field, Sampler]:
    """Return the custom field `own` or, if it is None, the configured field, and the configured
    sampler."""
    vanilla, march = config.vanilla, config.march
    if config.model == "hash":
        field = own or EncodedField(encoding_of(config, bounds), config.networks)
        return field, MarchingSampler(march, config.occupancy, bounds, field.density_of_first)
    field, coarse = own or VanillaField(vanilla, bounds), VanillaField(vanilla, bounds, "coarse")
    counts = vanilla.coarse, vanilla.fine
    return field, HierarchicalSampler(coarse, bounds, march.near_plane, counts, config.train.huber)
