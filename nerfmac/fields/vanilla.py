"""`VanillaField`, the original NeRF: two MLPs that read encoded positions and directions.

A coarse network estimates where the density along a ray is high. A fine network with the same
layers is evaluated at the coarse network's samples and at additional samples where the density is
high. Both networks are trained, and the fine network is used for rendering (Mildenhall et al. 2020,
section 5 and figure 7).

The activation of the density is softplus(x - 1), as in mip-NeRF (Barron et al. 2021). The original
NeRF uses ReLU. The gradient of ReLU is zero for negative inputs, so a network with an initial
density of zero everywhere could not be trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from nerfmac.config import VanillaConfig
from nerfmac.fields.encodings import Frequencies
from nerfmac.fields.field import Field, Parameters, ParameterSpec
from nerfmac.fields.networks import glorot_uniform
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.samples import Samples


@dataclass(frozen=True)
class VanillaNetwork:
    """Coarse or fine network of a `VanillaField`. Its parameter names begin with `name`.

    The network has `layers` hidden layers. Layer `skip + 1` also reads the encoded position. The
    last hidden layer determines the density and the `bottleneck` with `width` features. The layer
    `view`, with half the width, reads the bottleneck and the encoded direction, and determines the
    color.

    A layer with two inputs has a separate matrix for each input and adds the two products. The
    result is the same as if a larger matrix were multiplied with the concatenated inputs, but no
    copy is necessary. The product with the direction is computed only once per ray, not for each
    sample.
    """

    name: str
    config: VanillaConfig

    @property
    def position(self) -> Frequencies:
        """Encoding of the positions."""
        return Frequencies(self.config.position_frequencies)

    @property
    def direction(self) -> Frequencies:
        """Encoding of the directions."""
        return Frequencies(self.config.direction_frequencies)

    @property
    def layers(self) -> dict[str, tuple[dict[str, int], int]]:
        """For each layer, the number of inputs of each matrix, keyed by name, and the number of
        outputs."""
        width, skip = self.config.width, self.config.skip
        layers: dict[str, tuple[dict[str, int], int]] = {
            str(layer): ({"weight": width if layer else self.position.outputs}, width)
            for layer in range(self.config.layers)
        }
        layers[str(skip + 1)][0]["position"] = self.position.outputs
        layers["density"] = ({"weight": width}, 1)
        layers["bottleneck"] = ({"weight": width}, width)
        layers["view"] = ({"weight": width, "direction": self.direction.outputs}, width // 2)
        layers["color"] = ({"weight": width // 2}, 3)
        return {f"{self.name}.{layer}": sizes for layer, sizes in layers.items()}

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declarations of each layer's matrices and bias, without L2 regularization."""
        specs = {}
        for layer, (matrices, outputs) in self.layers.items():
            for matrix, rows in matrices.items():
                specs[f"{layer}.{matrix}"] = ParameterSpec((rows, outputs))
            specs[f"{layer}.bias"] = ParameterSpec((outputs,))
        return specs

    def init(self, key: mx.array) -> Parameters:
        """Return initial parameters: zero biases, and Glorot uniform weights that are drawn as if
        the matrices of a layer were one matrix."""
        parameters: Parameters = {}
        layers = self.layers
        keys = mx.random.split(key, len(layers))
        for (layer, (matrices, outputs)), layer_key in zip(layers.items(), keys, strict=True):
            weights = glorot_uniform(layer_key, sum(matrices.values()), outputs)
            row = 0
            for matrix, rows in matrices.items():
                parameters[f"{layer}.{matrix}"] = weights[row : row + rows]
                row += rows
            parameters[f"{layer}.bias"] = mx.zeros(outputs)
        return parameters

    def trunk(self, parameters: Parameters, points: mx.array) -> tuple[mx.array, mx.array]:
        """Return the density (points,) and the activations (points, width) of the last hidden layer
        at `points` in [-1, 1]^3."""
        encoded = hidden = self.position(points)
        for layer in range(self.config.layers):
            is_fed = layer == self.config.skip + 1
            addend = self._affine(parameters, layer, encoded, "position") if is_fed else None
            hidden = mx.maximum(self._affine(parameters, layer, hidden, addend=addend), 0.0)
        density = self._affine(parameters, "density", hidden)[:, 0]
        return mx.logaddexp(density - 1.0, 0.0), hidden

    def __call__(
        self, parameters: Parameters, points: mx.array, directions: mx.array, ray: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Return density (points,) and color (points, 3) in [0, 1] at `points` in [-1, 1]^3.

        `ray` (points,) contains the int32 index of each point's unit vector in `directions`.
        """
        density, hidden = self.trunk(parameters, points)
        bottleneck = self._affine(parameters, "bottleneck", hidden)
        along = self._affine(parameters, "view", self.direction(directions), "direction")
        view = mx.maximum(self._affine(parameters, "view", bottleneck, addend=along[ray]), 0.0)
        return density, mx.sigmoid(self._affine(parameters, "color", view))

    def _affine(
        self,
        parameters: Parameters,
        layer: int | str,
        inputs: mx.array,
        matrix: str = "weight",
        addend: mx.array | None = None,
    ) -> mx.array:
        """Multiply `inputs` by a layer's matrix, and add `addend` or, by default, the layer's
        bias."""
        if addend is None:
            addend = parameters[f"{self.name}.{layer}.bias"]
        return mx.addmm(addend, inputs, parameters[f"{self.name}.{layer}.{matrix}"])


class VanillaField(Field):
    """Field with a coarse network and a fine network, for positions inside `bounds`.

    The networks use coordinates in which the scene cube is [-1, 1]^3, and their density is per unit
    of these coordinates. Training therefore does not depend on the scene size.
    """

    def __init__(self, config: VanillaConfig, bounds: Bounds) -> None:
        self._coarse = VanillaNetwork("coarse", config)
        self._fine = VanillaNetwork("fine", config)
        self._bounds, self._per_unit = bounds, bounds.symmetric_scale

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Parameter declarations for the coarse and the fine network."""
        return self._coarse.parameter_specs | self._fine.parameter_specs

    def init(self, key: mx.array) -> Parameters:
        """Return random initial parameters of both networks."""
        coarse, fine = mx.random.split(key)
        return self._coarse.init(coarse) | self._fine.init(fine)

    def __call__(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Return the fine network's density (slots,) per scene unit and color (slots, 3) in [0, 1].

        Density and color are differentiable with respect to `parameters` and to the sample
        positions.
        """
        return self._evaluate(self._fine, parameters, samples, directions)

    def coarse(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Return the coarse network's density and color, for a `HierarchicalSampler`."""
        return self._evaluate(self._coarse, parameters, samples, directions)

    def density(self, parameters: Parameters, position: mx.array) -> mx.array:
        """Return the density (points,) per scene unit at `position`, without a gradient."""
        density, _ = self._fine.trunk(parameters, self._bounds.to_symmetric(position))
        return mx.stop_gradient(self._per_unit * density)

    def _evaluate(
        self,
        network: VanillaNetwork,
        parameters: Parameters,
        samples: Samples,
        directions: mx.array,
    ) -> tuple[mx.array, mx.array]:
        points = self._bounds.to_symmetric(samples.position)
        density, color = network(parameters, points, directions, samples.ray)
        return self._per_unit * density, color
