"""`StackedMlps`, a density network and a color network that reads the outputs of the density
network."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import mlx.core as mx

from nerfmac.fields.field import Parameters, ParameterSpec
from nerfmac.ops.networks import networks, networks_density
from nerfmac.ops.networks_shape import MlpShape, NetworksShape


@dataclass(frozen=True)
class StackedMlps:
    """Density network and color network, without biases and with ReLU between layers.

    The parameters `density` and `color` contain the flat weights of the two networks.
    """

    shape: NetworksShape

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declarations of the parameters `density` and `color`, which have L2 regularization."""
        return {
            "density": ParameterSpec((self.shape.density.weights,), is_l2_regularized=True),
            "color": ParameterSpec((self.shape.color.weights,), is_l2_regularized=True),
        }

    def init(self, density: mx.array, color: mx.array) -> Parameters:
        """Return random float32 weights. `density` and `color` are random keys."""
        return {
            "density": uniform_by_layer(self.shape.density, density),
            "color": uniform_by_layer(self.shape.color, color),
        }

    def __call__(
        self,
        parameters: Parameters,
        features: mx.array,
        basis: mx.array,
        ray: mx.array,
        used: mx.array,
    ) -> tuple[mx.array, mx.array]:
        """Return the density (slots,) and the color (slots, 3) from
        `nerfmac.ops.networks.networks`."""
        weights = parameters["density"], parameters["color"]
        return networks(features, basis, ray, used, *weights, self.shape)

    def density(
        self, parameters: Parameters, features: mx.array, used: mx.array | None = None
    ) -> mx.array:
        """Return the density (points,) from `nerfmac.ops.networks.networks_density`, without a
        gradient."""
        weights = parameters["density"], parameters["color"]
        return networks_density(features, *weights, self.shape, used)


def uniform_by_layer(shape: MlpShape, key: mx.array) -> mx.array:
    """Return random weights of all layers (see `glorot_uniform`) as a flat float32 array
    (shape.weights,)."""
    keys = mx.random.split(key, len(shape.matrices))
    return mx.concatenate(
        [
            glorot_uniform(key, *matrix).reshape(-1)
            for matrix, key in zip(shape.matrices, keys, strict=True)
        ]
    )


def glorot_uniform(key: mx.array, inputs: int, outputs: int) -> mx.array:
    """Return random float32 weights (inputs, outputs) (Glorot and Bengio 2010, equation 16)."""
    bound = sqrt(6.0 / (inputs + outputs))
    return mx.random.uniform(-bound, bound, (inputs, outputs), key=key)
