"""Sizes of the density and color networks in `nerfmac.ops.networks`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import mlx.core as mx

from nerfmac.common import checks
from nerfmac.common.constants import COLOR_INPUTS, NETWORK_OUTPUTS


@dataclass(frozen=True)
class MlpShape:
    """Widths of one network's layers, multiples of 16 (the side of the kernels' matrix tiles), and
    the number of its hidden layers."""

    inputs: int
    hidden: int
    hidden_layers: int
    outputs: int

    def __post_init__(self) -> None:
        for name in ("inputs", "hidden", "outputs"):
            if getattr(self, name) < 16 or getattr(self, name) % 16:
                raise checks.InputError(
                    f"{name} is {getattr(self, name)}; expected a positive multiple of 16"
                )
        checks.number("hidden_layers", self.hidden_layers, low=1, whole=True)

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """Shape (inputs, outputs) of each layer's matrix."""
        widths = [self.inputs, *[self.hidden] * self.hidden_layers, self.outputs]
        return list(pairwise(widths))

    @property
    def weights(self) -> int:
        """Number of weights of all layers together."""
        return sum(rows * columns for rows, columns in self.matrices)

    def split(self, weights: mx.array) -> list[mx.array]:
        """The flat `weights` as one matrix (inputs, outputs) for each layer."""
        matrices, first = [], 0
        for rows, columns in self.matrices:
            matrices.append(weights[first : first + rows * columns].reshape(rows, columns))
            first += rows * columns
        return matrices


@dataclass(frozen=True)
class NetworksShape:
    """Widths and numbers of layers of the density network and the color network."""

    features: int
    width: int
    density_layers: int  # hidden layers of the density network
    color_layers: int  # hidden layers of the color network
    density_bias: int = 0  # density is exp(x - density_bias)

    @property
    def density(self) -> MlpShape:
        """Shape of the density network, from features to embedding."""
        return MlpShape(self.features, self.width, self.density_layers, NETWORK_OUTPUTS)

    @property
    def color(self) -> MlpShape:
        """Shape of the color network, from embedding and encoded direction to color."""
        return MlpShape(COLOR_INPUTS, self.width, self.color_layers, NETWORK_OUTPUTS)

    @property
    def template(self) -> list[tuple[str, int]]:
        """The kernels' template arguments."""
        return [
            ("IN", self.features),
            ("WIDTH", self.width),
            ("DENSITY_LAYERS", self.density_layers),
            ("DENSITY_BIAS", self.density_bias),
            ("COLOR_LAYERS", self.color_layers),
        ]
