"""`Method`: the parts of a run that users can replace by their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.config import Config
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import encoding_of
from nerfmac.fields.field import Field
from nerfmac.fields.vanilla import VanillaField
from nerfmac.geometry.bounds import Bounds
from nerfmac.sampling.hierarchical import HierarchicalSampler
from nerfmac.sampling.marching import MarchingSampler
from nerfmac.sampling.sampler import Sampler
from nerfmac.training.losses import Loss, huber_loss


class Parts(NamedTuple):
    """The field, the sampler and the loss of a trainer."""

    field: Field
    sampler: Sampler
    loss: Loss


@dataclass(frozen=True)
class Method:
    """A field, a sampler and a loss of your own; None takes what the configuration names.

    Pass them when a run begins, and again when it is loaded: a run's files hold their names only,
    and nothing is imported because a file names it.
    """

    field: Field | None = None
    sampler: Sampler | None = None
    loss: Loss | None = None

    def __post_init__(self) -> None:
        """Raise `InputError` for parts that are none."""
        if self.field is not None:
            checks.kind("field", self.field, Field, "an object of a class of nerfmac.Field")
        if self.sampler is not None:
            checks.kind("sampler", self.sampler, Sampler, "an object of a class of nerfmac.Sampler")
        if self.loss is not None and not callable(self.loss):
            raise InputError(f"loss is {self.loss!r}; expected a function of the rays' colours")

    @property
    def own(self) -> dict[str, str]:
        """The names of the parts that are not None: of their classes, or of functions."""
        parts = {name: getattr(self, name) for name in ("field", "sampler", "loss")}
        return {
            name: getattr(part, "__name__", type(part).__name__)
            for name, part in parts.items()
            if part is not None
        }

    def parts(self, config: Config, extent: float) -> Parts:
        """All parts, for a scene whose cube has the side `extent`.

        Raises `InputError` for a field of one's own that the configured sampler cannot sample.
        """
        field, sampler = _model(config, extent, self.field)
        if self.sampler is None and config.model == "vanilla":
            _check_coarse(config, extent, field)
        return Parts(field, self.sampler or sampler, self.loss or huber_loss(config.train.huber))


def _model(config: Config, extent: float, own: Field | None) -> tuple[Field, Sampler]:
    """The field, `own` or the one that `config` names, and the sampler for it."""
    bounds = Bounds(extent)
    if config.model == "hash":
        field = own or EncodedField(encoding_of(config, bounds), config.networks)
        return field, MarchingSampler(
            config.march, config.occupancy, bounds, field.density_of_first
        )
    vanilla, near = config.vanilla, config.march.near
    two = VanillaField(vanilla, bounds)
    sampler = HierarchicalSampler(two.coarse, bounds, near, vanilla.coarse, vanilla.fine)
    return own or two, sampler


def _check_coarse(config: Config, extent: float, field: Field) -> None:
    """Raise unless `field` has the coarse network that the vanilla model's sampler evaluates."""
    shapes = VanillaField(config.vanilla, Bounds(extent)).shapes
    coarse = {name: shape for name, shape in shapes.items() if name.startswith("coarse.")}
    if not coarse.items() <= field.shapes.items():
        raise InputError(
            "model is 'vanilla', whose sampler evaluates a coarse network, and the field "
            f"{type(field).__name__} has none of that shape; give a sampler too, "
            "nerfmac.Method(field=..., sampler=...), or take model 'hash'"
        )
