"""`RadianceField`: density and colour at a position, seen along a direction.

Hash encoding, a density network and on top of it a colour network that also takes spherical
harmonics of the direction (Müller et al. 2022, section 5.4). The density network's first output is
the logarithm of the density. Parameters are values that are handed in, so the training step, the
averaged copy and a checkpoint all speak of the same plain arrays.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import mlx.core as mx

from nerfmac.config import Config
from nerfmac.encoding import HashGrid
from nerfmac.mlp import StackedMlp
from nerfmac.ops.mlp import MlpShape
from nerfmac.ops.spherical_harmonics import COEFFICIENTS, spherical_harmonics

EMBEDDING = 16
"""Outputs of the density network: what it tells the colour network of a position."""

Parameters = dict[str, mx.array]


@mx.custom_function
def truncated_exp(x: mx.array) -> mx.array:
    """exp(x), whose gradient is that at the nearest point of [-15, 15] (as Instant-NGP's)."""
    return mx.exp(x)


@truncated_exp.vjp
def _truncated_exp_vjp(x, cotangent, _output):  # type: ignore[no-untyped-def]
    return cotangent * mx.exp(mx.clip(x, -15.0, 15.0))


class RadianceField:
    """The field of a scene whose cube has the side `extent`; holds no parameters itself."""

    def __init__(self, config: Config, extent: float) -> None:
        self._grid = HashGrid(config.grid, extent)
        networks = config.networks
        self._density = StackedMlp(
            MlpShape(self._grid.outputs, networks.width, networks.density_layers, EMBEDDING)
        )
        self._colour = StackedMlp(
            MlpShape(EMBEDDING + COEFFICIENTS, networks.width, networks.colour_layers, 16)
        )

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters' names and shapes; all are float32."""
        table = (self._grid.levels.entries, self._grid.config.features)
        return {
            "table": table,
            "density": (self._density.shape.weights,),
            "colour": (self._colour.shape.weights,),
        }

    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters: `table`, `density` and `colour`."""
        table, density, colour = mx.random.split(key, 3)
        return {
            "table": self._grid.init(table),
            "density": self._density.init(density),
            "colour": self._colour.init(colour),
        }

    def density(self, parameters: Parameters, position: mx.array) -> tuple[mx.array, mx.array]:
        """Density (points,) per scene unit at `position` (points, 3); embedding (points, 16)."""
        features = self._grid(parameters["table"], position)
        embedding = self._density(parameters["density"], features)
        return cast(mx.array, truncated_exp(embedding[:, 0])), embedding

    def colour(self, parameters: Parameters, embedding: mx.array, basis: mx.array) -> mx.array:
        """Colour (points, 3) in [0, 1] from the embedding and the direction's `basis`."""
        inputs = mx.concatenate([embedding, basis], axis=1)
        return mx.sigmoid(self._colour(parameters["colour"], inputs)[:, :3])

    @staticmethod
    def basis(direction: mx.array) -> mx.array:
        """Spherical harmonics (rays, 16) of `direction` (rays, 3), unit."""
        return spherical_harmonics(direction)
