"""`VanillaField`, the original NeRF: an MLP that reads encoded positions and directions.

The original NeRF has two such networks: a coarse network, which the `HierarchicalSampler` evaluates
to find out where the density along a ray is high, and a fine network, the field (Mildenhall et al.
2020, section 5 and figure 7).

The activation of the density is softplus(x - 1), as in mip-NeRF (Barron et al. 2021). The original
NeRF uses ReLU. The gradient of ReLU is zero for negative inputs, so a network with an initial
density of zero everywhere could not be trained.
"""

from dataclasses import dataclass

import mlx.core as mx

from nerfmac.config import VanillaConfig
from nerfmac.fields.encodings import Frequencies
from nerfmac.fields.field import Field, FieldOutput, Parameters, ParameterSpec
from nerfmac.geometry import Bounds, Rays, Samples
from nerfmac.ops.networks import glorot_uniform


@dataclass(frozen=True)
class VanillaNetwork:
    """Network of a `VanillaField`. Its parameter names begin with `name`.

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
    """Field with a single network, for positions inside `bounds`.

    The network uses coordinates in which the scene cube is [-1, 1]^3, and its density is per unit
    of these coordinates. Training therefore does not depend on the scene size.
    """

    def __init__(self, config: VanillaConfig, bounds: Bounds, name: str = "fine") -> None:
        """Create a field from the settings of a network. Parameter names begin with `name`."""
        self._network = VanillaNetwork(name, config)
        self._bounds, self._per_unit = bounds, bounds.symmetric_scale

    @property
    def parameter_specs(self) -> dict[str, ParameterSpec]:
        """Declarations of the parameters of the network."""
        return self._network.parameter_specs

    def init(self, key: mx.array) -> Parameters:
        """Return random initial parameters."""
        return self._network.init(key)

    def __call__(self, parameters: Parameters, samples: Samples, rays: Rays) -> FieldOutput:
        """Return the density (slots,) per scene unit and the color (slots, 3) in [0, 1].

        Density and color are differentiable with respect to `parameters` and to the sample
        positions.
        """
        points = self._bounds.to_symmetric(samples.position)
        density, color = self._network(parameters, points, rays.direction, samples.ray)
        return FieldOutput(self._per_unit * density, color)

    def density(self, parameters: Parameters, samples: Samples, rays: Rays) -> mx.array:
        """Return the density (slots,) per scene unit, without a gradient."""
        density, _ = self._network.trunk(parameters, self._bounds.to_symmetric(samples.position))
        return mx.stop_gradient(self._per_unit * density)
