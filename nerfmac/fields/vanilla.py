"""`VanillaField`: NeRF as first published, two stacked MLPs of encoded positions and directions.

A coarse network estimates where density is. A fine network of the same shape is evaluated there,
and images are made with it (Mildenhall et al. 2020, section 5 and figure 7). Both are trained.

The density's activation is softplus(x - 1), as in mip-NeRF (Barron et al. 2021). The paper's ReLU
has no gradient where it is zero, so a network that begins without any density would never learn.
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
    """One of the two networks; its parameters' names begin with `name`.

    There are `layers` hidden layers. Layer `skip + 1` reads the encoded position again. The last
    hidden layer gives the density and `bottleneck`, `width` features. One more layer, `view`, of
    half the width, reads these and the encoded direction; the color comes from it.

    A layer with two inputs has a matrix for each and adds the two products. That equals one larger
    matrix times the concatenated inputs, without a copy. The product with the direction is computed
    once for each ray, not for each sample.
    """

    name: str
    config: VanillaConfig

    @property
    def position(self) -> Frequencies:
        """The encoding of positions."""
        return Frequencies(self.config.position_frequencies)

    @property
    def direction(self) -> Frequencies:
        """The encoding of directions."""
        return Frequencies(self.config.direction_frequencies)

    @property
    def layers(self) -> dict[str, tuple[dict[str, int], int]]:
        """Layer's name -> (name of each matrix -> its number of inputs, number of outputs)."""
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
        """The matrices and the bias of each layer, without L2 regularization."""
        specs = {}
        for layer, (matrices, outputs) in self.layers.items():
            for matrix, rows in matrices.items():
                specs[f"{layer}.{matrix}"] = ParameterSpec((rows, outputs))
            specs[f"{layer}.bias"] = ParameterSpec((outputs,))
        return specs

    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters: zero biases and Glorot uniform weights.

        The matrices of one layer are drawn as one matrix.
        """
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
        """Density (points,) and the last hidden layer (points, width) of `points` in [-1, 1]^3."""
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
        """Density (points,) and color (points, 3) in [0, 1] of `points` in [-1, 1]^3.

        `directions` are (rays, 3) unit vectors, `ray` (points,) int32 is the ray of each point.
        """
        density, hidden = self.trunk(parameters, points)
        bottleneck = self._affine(parameters, "bottleneck", hidden)
        along = self._affine(parameters, "view", self.direction(directions), "direction")
        view = mx.maximum(self._affine(parameters, "view", bottleneck, addend=along[ray]), 0.0)
        return density, mx.sigmoid(self._affine(parameters, "color", view))

    def coarse_to_fine(self, parameters: Parameters, level_progress: mx.array) -> Parameters:
        """Fade in the position's frequencies: each feature's weight multiplies its matrix rows."""
        weights = self.position.weights(level_progress)[:, None]
        names = f"{self.name}.0.weight", f"{self.name}.{self.config.skip + 1}.position"
        return parameters | {name: weights * parameters[name] for name in names}

    def _affine(
        self,
        parameters: Parameters,
        layer: int | str,
        inputs: mx.array,
        matrix: str = "weight",
        addend: mx.array | None = None,
    ) -> mx.array:
        """Multiply `inputs` by the matrix of a layer, and add `addend` or, by default, the bias."""
        if addend is None:
            addend = parameters[f"{self.name}.{layer}.bias"]
        return mx.addmm(addend, inputs, parameters[f"{self.name}.{layer}.{matrix}"])


class VanillaField(Field):
    """The coarse and the fine network of positions within `bounds`.

    The networks see the bounds as [-1, 1]^3, and their density is per unit of these coordinates. So
    scenes of all sizes are equally easy to learn.
    """

    def __init__(self, config: VanillaConfig, bounds: Bounds) -> None:
        self._coarse = VanillaNetwork("coarse", config)
        self._fine = VanillaNetwork("fine", config)
        self._bounds, self._per_unit = bounds, bounds.symmetric_scale

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """The parameters of both networks, the coarse network's first."""
        return self._coarse.parameter_specs | self._fine.parameter_specs

    def init(self, key: mx.array) -> Parameters:
        """Fresh parameters of both networks, drawn by the random `key`."""
        coarse, fine = mx.random.split(key)
        return self._coarse.init(coarse) | self._fine.init(fine)

    def __call__(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Density (slots,) per scene unit and color (slots, 3) in [0, 1] by the fine network.

        `directions` (rays, 3) are unit vectors. Differentiable in parameters and positions.
        """
        return self._evaluate(self._fine, parameters, samples, directions)

    def coarse(
        self, parameters: Parameters, samples: Samples, directions: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Density and color by the coarse network: the proposal of a `HierarchicalSampler`."""
        return self._evaluate(self._coarse, parameters, samples, directions)

    def coarse_to_fine(self, parameters: Parameters, level_progress: mx.array) -> Parameters:
        """Fade in the frequencies of both networks, as `VanillaNetwork` does."""
        coarse = self._coarse.coarse_to_fine(parameters, level_progress)
        return self._fine.coarse_to_fine(coarse, level_progress)

    def density(self, parameters: Parameters, position: mx.array) -> mx.array:
        """Density (points,) per scene unit at `position` (points, 3), without a gradient."""
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
