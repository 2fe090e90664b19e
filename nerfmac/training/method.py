"""`Method`: the parts of a run that users can replace by their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nerfmac.config import Config
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.field import Field
from nerfmac.fields.vanilla import VanillaField
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
        """All parts, for a scene whose cube has the side `extent`."""
        field, sampler = _model(config, extent, self.field)
        return Parts(field, self.sampler or sampler, self.loss or huber_loss(config.train.huber))


def _model(config: Config, extent: float, own: Field | None) -> tuple[Field, Sampler]:
    """The field, `own` or the one that `config` names, and the sampler for it."""
    if config.model == "hash":
        field = own or EncodedField(config, extent)
        return field, MarchingSampler(config, extent, field.density_of_first)
    vanilla, near = config.vanilla, config.march.near
    two = VanillaField(vanilla, extent)
    sampler = HierarchicalSampler(two.coarse, extent, near, vanilla.coarse, vanilla.fine)
    return own or two, sampler
