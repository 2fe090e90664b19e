"""A whole multilayer perceptron as one operation: no biases, ReLU between layers, none at the end.

The weights are one flat array, the layers' matrices one after the other, each row-major (inputs,
outputs), as in tiny-cuda-nn's fully fused networks (Müller et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import mlx.core as mx

from nerfmac import checks
from nerfmac.backend import Kernel, current_device, runs_kernel

_ROWS = 32  # rows of a tile: its activations stay in a core's first-level cache
_GROUPS = 32  # partial sums of the weights' gradient; fixed, so results do not depend on the cores

_FORWARD = Kernel(
    "mlp",
    "mlp_forward",
    inputs=("inputs", "weights"),
    outputs=("outputs",),
    rows="inputs_shape[0]",
)
_GRADIENT = Kernel(
    "mlp",
    "mlp_gradient",
    inputs=("inputs", "weights", "transposed", "gradient"),
    outputs=("inputs_gradient", "weights_gradient"),
    rows="inputs_shape[0]",
)


@dataclass(frozen=True)
class MlpShape:
    """Widths of the layers; each a multiple of 16, the widest vector a kernel uses."""

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
        """(inputs, outputs) of each layer."""
        widths = [self.inputs, *[self.hidden] * self.hidden_layers, self.outputs]
        return list(pairwise(widths))

    @property
    def weights(self) -> int:
        """Weights of all layers together."""
        return sum(rows * columns for rows, columns in self.matrices)

    def split(self, weights: mx.array) -> list[mx.array]:
        """The flat `weights` as matrices."""
        matrices, first = [], 0
        for rows, columns in self.matrices:
            matrices.append(weights[first : first + rows * columns].reshape(rows, columns))
            first += rows * columns
        return matrices


def mlp(inputs: mx.array, weights: mx.array, shape: MlpShape) -> mx.array:
    """Evaluate the network on each row.

    On a GPU MLX's matrix products do it; on the CPU a kernel, since the BLAS in MLX's Linux
    packages is an unoptimised one.

    Args:
        inputs: (rows, shape.inputs) float32.
        weights: (shape.weights,) float32.
        shape: the layers' widths.

    Returns:
        (rows, shape.outputs) float32; differentiable in `inputs` and `weights`.

    Raises:
        InputError: a wrong shape or type.
    """
    checks.shape("inputs", inputs, (None, shape.inputs))
    checks.shape("weights", weights, (shape.weights,))
    checks.dtype("inputs", inputs, mx.float32)
    checks.dtype("weights", weights, mx.float32)
    if current_device() != "cpu" or not runs_kernel("mlp"):
        return mlp_reference(inputs, weights, shape)
    return mlp_kernel(inputs, weights, shape)


def mlp_reference(inputs: mx.array, weights: mx.array, shape: MlpShape) -> mx.array:
    """The same in plain MLX."""
    *hidden, last = shape.split(weights)
    for matrix in hidden:
        inputs = mx.maximum(inputs @ matrix, 0.0)
    return inputs @ last


def mlp_kernel(inputs: mx.array, weights: mx.array, shape: MlpShape) -> mx.array:
    """The same by the kernel, on whatever device is the default."""
    template = [
        ("ROWS", _ROWS),
        ("IN", shape.inputs),
        ("HIDDEN", shape.hidden),
        ("HIDDEN_LAYERS", shape.hidden_layers),
        ("OUT", shape.outputs),
    ]

    @mx.custom_function
    def run(inputs: mx.array, weights: mx.array) -> mx.array:
        rows = inputs.shape[0]
        (outputs,) = _FORWARD(
            inputs,
            weights,
            grid=((rows + _ROWS - 1) // _ROWS, 1, 1),
            template=template,
            output_shapes=[(rows, shape.outputs)],
            output_dtypes=[mx.float32],
        )
        return outputs

    @run.vjp
    def run_vjp(primals, cotangent, _output):  # type: ignore[no-untyped-def]
        inputs, weights = primals
        transposed = mx.concatenate([matrix.T.reshape(-1) for matrix in shape.split(weights)])
        d_inputs, partial = _GRADIENT(
            inputs,
            weights,
            transposed,
            cotangent,
            grid=(_GROUPS, 1, 1),
            template=[*template, ("THREADS", _GROUPS)],
            output_shapes=[inputs.shape, (_GROUPS, shape.weights)],
            output_dtypes=[mx.float32] * 2,
        )
        return d_inputs, partial.sum(axis=0)

    return cast(mx.array, run(inputs, weights))
