"""Sizes of the density and color networks in `nerfmac.ops.networks`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import mlx.core as mx

from nerfmac.common import checks
from nerfmac.common.constants import COLOR_INPUTS, NETWORK_OUTPUTS


@dataclass(frozen=True)
class MlpShape:
    """Layer widths and number of hidden layers of one network.

    Widths are multiples of 16, because the kernels compute matrix tiles with 16 rows and columns.

    Raises:
        InputError: If a width is not a positive multiple of 16, or the number of hidden layers is
            less than 1.
    """

    inputs: int  # number of inputs
    hidden: int  # width of the hidden layers
    hidden_layers: int  # number of hidden layers
    outputs: int  # number of outputs

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
        """Total number of weights of all layers."""
        return sum(rows * columns for rows, columns in self.matrices)

    def split(self, weights: mx.array) -> list[mx.array]:
        """Split the flat weights of a network into its matrices.

        Args:
            weights: (self.weights,) float32.

        Returns:
            One matrix (inputs, outputs) for each layer.
        """
        matrices, first = [], 0
        for rows, columns in self.matrices:
            matrices.append(weights[first : first + rows * columns].reshape(rows, columns))
            first += rows * columns
        return matrices


@dataclass(frozen=True)
class NetworksShape:
    """Widths and numbers of layers of the density network and the color network."""

    features: int  # number of features that the density network reads
    width: int  # width of the hidden layers
    density_layers: int  # number of hidden layers of the density network
    color_layers: int  # number of hidden layers of the color network
    density_bias: int = 0  # the density is exp(x - density_bias)

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
        """Template arguments of the kernels."""
        return [
            ("IN", self.features),
            ("WIDTH", self.width),
            ("DENSITY_LAYERS", self.density_layers),
            ("DENSITY_BIAS", self.density_bias),
            ("COLOR_LAYERS", self.color_layers),
        ]
