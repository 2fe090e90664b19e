"""Random initial weights of networks."""

from math import sqrt

import mlx.core as mx

from nerfmac.ops.networks import MlpShape


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
