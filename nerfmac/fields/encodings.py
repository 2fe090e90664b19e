"""Encodings of a position: three coordinates become features that a small network can learn from.

An encoding holds no parameters. Those that are learned, such as a grid's table, are arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import exp, floor, log

import mlx.core as mx

from nerfmac.backend import Shapes, working_dtype
from nerfmac.config import Config, HashGridConfig
from nerfmac.fields.coarseness import level_weights
from nerfmac.fields.field import Parameters
from nerfmac.fields.frequencies import Frequencies
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.hash_encode import HashLevels, hash_encode

_FINEST = 1024  # cells along a scene unit, where neither a user nor a scene's pictures say


class Encoding(ABC):
    """Maps positions in a scene's cube to features."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of features of a position: a multiple of 16, as the networks need."""

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of the parameters, which are float32."""
        return {}

    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters, drawn by the random `key`."""
        return {}

    def weights(self, detail: mx.array) -> mx.array:
        """(outputs,) weights of the features that fade finer ones in, by `detail` () in [0, 1]."""
        return mx.ones(self.outputs)

    @abstractmethod
    def __call__(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """Features (points, outputs) of `position` (points, 3) in scene coordinates.

        Their dtype is `nerfmac.backend.working_dtype()`. Only the first `used` (1,) int32 points
        count, as in `hash_encode`. Differentiable in the parameters; also in the positions, if
        cameras are to be refined.
        """


@dataclass(frozen=True)
class HashGrid(Encoding):
    """The hash encoding of positions within `bounds`."""

    config: HashGridConfig
    bounds: Bounds

    @cached_property
    def levels(self) -> HashLevels:
        """Levels in geometric progression: from `coarsest` cells a cube to `finest` a unit."""
        return self._levels(self.bounds.cells_across(self.config.finest or _FINEST))

    def _levels(self, finest: float) -> HashLevels:
        """Levels in geometric progression, from `coarsest` to `finest` cells along the cube."""
        config = self.config
        growth = exp(log(finest / config.coarsest) / (config.levels - 1))
        return HashLevels(config.levels, config.log2_entries, config.coarsest, growth)

    @property
    def outputs(self) -> int:
        """See `Encoding`."""
        return self.config.levels * self.config.features

    @property
    def shapes(self) -> Shapes:
        """The table's shape: (entries, features)."""
        return {"table": (self.levels.entries, self.config.features)}

    def init(self, key: mx.array) -> Parameters:
        """The table, drawn uniformly from [-1e-4, 1e-4] (Müller et al. 2022, section 4)."""
        return {"table": mx.random.uniform(-1e-4, 1e-4, self.shapes["table"], key=key)}

    def weights(self, detail: mx.array) -> mx.array:
        """See `Encoding`."""
        return mx.repeat(level_weights(self.config.levels, detail), self.config.features)

    def __call__(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """See `Encoding`."""
        return hash_encode(self.bounds.to_unit(position), parameters["table"], self.levels, used)


class DenseGrid(HashGrid):
    """Grids in which each vertex has an entry of its own: the hash encoding without the hashing.

    The finest grid has as many vertices as fit in a level's table (Müller et al. 2022, figure 2d).
    """

    @cached_property
    def levels(self) -> HashLevels:
        """Levels in geometric progression, from `coarsest` cells a cube to the most that fit."""
        vertices = floor(2 ** (self.config.log2_entries / 3) + 1e-9)
        # HashLevels gives a level of c cells ceil(c - 1) + 1 vertices: c, or c + 1 by rounding.
        # So one cell less than there is room for.
        return self._levels(max(vertices - 1, self.config.coarsest))


@dataclass(frozen=True)
class FrequencyEncoding(Encoding):
    """The positional encoding of the vanilla model: sines and cosines, without parameters."""

    frequencies: Frequencies
    bounds: Bounds

    @property
    def outputs(self) -> int:
        """The encoding's number of features, rounded up to a multiple of 16."""
        return -(-self.frequencies.outputs // 16) * 16

    def weights(self, detail: mx.array) -> mx.array:
        """See `Encoding`."""
        given = self.frequencies.weights(detail)
        return mx.concatenate([given, mx.ones(self.outputs - self.frequencies.outputs)])

    def __call__(
        self, parameters: Parameters, position: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """See `Encoding`."""
        encoded = self.frequencies(self.bounds.to_symmetric(position))
        empty = mx.zeros((position.shape[0], self.outputs - self.frequencies.outputs))
        return mx.concatenate([encoded, empty], axis=1).astype(working_dtype())


def encoding_of(config: Config, bounds: Bounds) -> Encoding:
    """The encoding that `config` names, of positions within `bounds`."""
    if config.encoding == "frequency":
        return FrequencyEncoding(Frequencies(config.vanilla.position_frequencies), bounds)
    return {"hash": HashGrid, "dense": DenseGrid}[config.encoding](config.grid, bounds)
