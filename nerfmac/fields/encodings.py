"""Parameters around the encodings: the hash grid of positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log

import mlx.core as mx

from nerfmac.config import HashGridConfig
from nerfmac.ops.hash_encode import HashLevels, hash_encode


@dataclass(frozen=True)
class HashGrid:
    """The hash encoding of a scene's cube of side `extent`, centred at (0.5, 0.5, 0.5)."""

    config: HashGridConfig
    extent: float

    @cached_property
    def levels(self) -> HashLevels:
        """Geometric from `coarsest` cells over the cube to `finest` a scene unit."""
        config = self.config
        widest = log(config.finest * self.extent / config.coarsest)
        growth = exp(widest / (config.levels - 1))
        return HashLevels(config.levels, config.log2_entries, config.coarsest, growth)

    @property
    def outputs(self) -> int:
        """Features of a position."""
        return self.config.levels * self.config.features

    def init(self, key: mx.array) -> mx.array:
        """The table, (entries, features), uniform in +-1e-4 (Müller et al. 2022, section 4)."""
        return mx.random.uniform(-1e-4, 1e-4, (self.levels.entries, self.config.features), key=key)

    def __call__(
        self, table: mx.array, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """(points, outputs) features of `position` (points, 3), in scene coordinates.

        `used` (1,) int32 is how many of the points count, as in `hash_encode`.
        """
        unit = (position - 0.5) / self.extent + 0.5
        return hash_encode(unit, table, self.levels, used)
