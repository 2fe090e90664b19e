"""`StackedMlp`: a small network whose weights are one flat array."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import mlx.core as mx

from nerfmac.ops.mlp import MlpShape, mlp


@dataclass(frozen=True)
class StackedMlp:
    """No biases, ReLU between layers, none at the end; widths are multiples of 16."""

    shape: MlpShape

    def init(self, key: mx.array) -> mx.array:
        """(shape.weights,) float32, uniform by layer (Glorot and Bengio 2010, equation 16)."""
        matrices = self.shape.matrices
        keys = mx.random.split(key, len(matrices))
        drawn = []
        for (rows, columns), each in zip(matrices, keys, strict=True):
            bound = sqrt(6.0 / (rows + columns))
            drawn.append(mx.random.uniform(-bound, bound, (rows * columns,), key=each))
        return mx.concatenate(drawn)

    def __call__(self, weights: mx.array, inputs: mx.array) -> mx.array:
        """(rows, shape.outputs) from `inputs` (rows, shape.inputs)."""
        return mlp(inputs, weights, self.shape)
