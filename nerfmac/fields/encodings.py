"""Encodings of a position: what turns three numbers into features that a small network can use.

Each is a value without parameters of its own; what is learned, a grid's table, is handed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import exp, floor, log

import mlx.core as mx

from nerfmac.backend import Shapes, working_dtype
from nerfmac.config import Config, HashGridConfig
from nerfmac.fields.field import Parameters
from nerfmac.fields.frequencies import Frequencies
from nerfmac.ops.hash_encode import HashLevels, hash_encode


class Encoding(ABC):
    """Features of positions in a scene's cube."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Features of a position, a multiple of 16: the networks' unit of width."""

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of its parameters, float32."""
        return {}

    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters, drawn by the random `key`."""
        return {}

    @abstractmethod
    def __call__(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """(points, outputs) features of `position` (points, 3), in scene coordinates.

        `used` (1,) int32 is how many of the points count, as in `hash_encode`.
        """


@dataclass(frozen=True)
class HashGrid(Encoding):
    """The hash encoding of a scene's cube of side `extent`, centred at (0.5, 0.5, 0.5)."""

    config: HashGridConfig
    extent: float

    @cached_property
    def levels(self) -> HashLevels:
        """Geometric from `coarsest` cells over the cube to `finest` a scene unit."""
        return self._levels(self.config.finest * self.extent)

    def _levels(self, finest: float) -> HashLevels:
        """Geometric from `coarsest` to `finest` cells along the cube."""
        config = self.config
        growth = exp(log(finest / config.coarsest) / (config.levels - 1))
        return HashLevels(config.levels, config.log2_entries, config.coarsest, growth)

    @property
    def outputs(self) -> int:
        """See `Encoding`."""
        return self.config.levels * self.config.features

    @property
    def shapes(self) -> Shapes:
        """The table's: (entries, features)."""
        return {"table": (self.levels.entries, self.config.features)}

    def init(self, key: mx.array) -> Parameters:
        """The table, uniform in +-1e-4 (Müller et al. 2022, section 4)."""
        return {"table": mx.random.uniform(-1e-4, 1e-4, self.shapes["table"], key=key)}

    def __call__(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """See `Encoding`."""
        unit = (position - 0.5) / self.extent + 0.5
        return hash_encode(unit, parameters["table"], self.levels, used)


class DenseGrid(HashGrid):
    """Grids of which no two vertices share an entry: the hash encoding without the hashing.

    The finest has as many vertices as a level's table has room for (Müller et al. 2022, figure 2d).
    """

    @cached_property
    def levels(self) -> HashLevels:
        """Geometric from `coarsest` cells over the cube to the most that fit."""
        vertices = floor(2 ** (self.config.log2_entries / 3) + 1e-9)
        # Of a level's c cells HashLevels makes ceil(c - 1) + 1 vertices; one less is surely c.
        return self._levels(max(vertices - 1, self.config.coarsest))


@dataclass(frozen=True)
class FrequencyEncoding(Encoding):
    """The positional encoding of the vanilla model: sines and cosines, without parameters."""

    frequencies: Frequencies
    extent: float

    @property
    def outputs(self) -> int:
        """The encoding's, filled up to a multiple of 16."""
        return -(-self.frequencies.outputs // 16) * 16

    def __call__(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """See `Encoding`."""
        encoded = self.frequencies((position - 0.5) * (2.0 / self.extent))
        empty = mx.zeros((position.shape[0], self.outputs - self.frequencies.outputs))
        return mx.concatenate([encoded, empty], axis=1).astype(working_dtype())


def encoding_of(config: Config, extent: float) -> Encoding:
    """The encoding that `config` names."""
    if config.encoding == "frequency":
        return FrequencyEncoding(Frequencies(config.vanilla.position_frequencies), extent)
    return {"hash": HashGrid, "dense": DenseGrid}[config.encoding](config.grid, extent)
