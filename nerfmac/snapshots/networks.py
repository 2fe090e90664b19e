"""The networks' weights, as tiny-cuda-nn keeps them and as nerfmac does.

tiny-cuda-nn stores a layer's matrix as (outputs, inputs), row by row, nerfmac as (inputs, outputs).
Its last layer has as many rows as the outputs, rounded up to 16, or to 8 for a CutlassMLP.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common.json_reader import Fields
from nerfmac.config.fields import WIDTHS
from nerfmac.ops.networks_shape import MlpShape

Array = npt.NDArray[np.float32]

LAST_ROWS = {"fullyfusedmlp": 16, "megakernelmlp": 16, "cutlassmlp": 8}
"""By the kinds of networks: what the rows of the last layer are a multiple of."""

LAYERS = range(1, 5)


class Mlp(NamedTuple):
    """A network in a snapshot."""

    inputs: int
    width: int
    layers: int  # hidden ones
    outputs: int  # rows of the last layer, with those that fill it up

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(outputs, inputs) of each layer."""
        widths = [self.inputs, *[self.width] * self.layers, self.outputs]
        return list(zip(widths[1:], widths[:-1], strict=True))

    @property
    def weights(self) -> int:
        """Weights of all layers together."""
        return sum(rows * columns for rows, columns in self.shapes)

    def to_ours(self, weights: Array, shape: MlpShape) -> Array:
        """The flat `weights` (self.weights,) as those of `shape`, which is as large or larger."""
        flat, first = [], 0
        for (rows, columns), (inputs, outputs) in zip(self.shapes, shape.matrices, strict=True):
            matrix = np.zeros((inputs, outputs), np.float32)
            given = weights[first : first + rows * columns].reshape(rows, columns)
            matrix[:columns, :rows] = given.T
            flat.append(matrix.ravel())
            first += rows * columns
        return np.concatenate(flat)


def read_mlp(network: Fields, inputs: int, outputs: int) -> Mlp:
    """The network that a snapshot describes. Raises `InputError` for one that nerfmac lacks."""
    kind = network.text("otype").lower()
    if kind not in LAST_ROWS:
        raise network.wrong("otype", "FullyFusedMLP or CutlassMLP")
    for key, expected in (("activation", "ReLU"), ("output_activation", "None")):
        if key in network and network.text(key).lower() != expected.lower():
            raise network.wrong(key, f"{expected}, the only one that nerfmac has")
    if "n_output_dims" in network and network.count("n_output_dims") != outputs:
        raise network.wrong("n_output_dims", str(outputs))
    width, layers = network.count("n_neurons", 128), int(network.number("n_hidden_layers", 5))
    if width not in WIDTHS:
        raise network.wrong("n_neurons", "16, 32, 64 or 128")
    if layers not in LAYERS:
        raise network.wrong("n_hidden_layers", "1 to 4, as many as nerfmac's networks have")
    rows = -(-outputs // LAST_ROWS[kind]) * LAST_ROWS[kind]
    return Mlp(inputs, width, layers, rows)


def written(weights: Array, shape: MlpShape) -> Array:
    """nerfmac's flat `weights` of `shape` as a FullyFusedMLP's."""
    flat, first = [], 0
    for rows, columns in shape.matrices:
        flat.append(weights[first : first + rows * columns].reshape(rows, columns).T.ravel())
        first += rows * columns
    return np.concatenate(flat)
