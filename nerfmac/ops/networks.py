"""Density and color networks that map features and directions to density and color.

The density network maps the features of a position to an embedding. The embedding's first value x
determines the density, exp(x - density_bias). The color network maps the embedding and the
spherical harmonics of the direction to the color (Müller et al. 2022, section 5.4). Layers have no
biases. Hidden layers use ReLU, and the color output uses a sigmoid.

The weights of a network are stored in one flat array: the matrices (inputs, outputs) of all layers
in row-major order, one after the other. The networks are equivalent to tiny-cuda-nn's fully fused
networks (Müller et al. 2021), which store the transposed matrices (outputs, inputs). The initial
weights are random.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, cast

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, current_device, simd_width, variant, working_dtype
from nerfmac.common import checks
from nerfmac.common.constants import (
    COLOR_INPUTS,
    DENSITY_LIMIT,
    DIRECTION_FEATURES,
    NETWORK_OUTPUTS,
    OF_DEVICES,
    TILE_ROWS,
)
from nerfmac.ops.operation import operation

# Number of partial sums of the weight gradients, one per threadgroup. On a CPU, the number is
# fixed, so that results do not depend on the number of cores.
_GROUPS = {"groups_32": 32, "groups_64": 64, "groups_256": 256, "groups_512": 512}
_PADDING = {"close": 0, "padded": 8}  # unused values after each row of a tile in threadgroup memory
_SPACE = {"metal": 32 * 2**10, "cuda": 48 * 2**10}  # bytes of threadgroup memory per kernel

_TAKES = Signature(
    features=((mx.float32, working_dtype), "slots", "features"),
    density_weights=(mx.float32, "density weights"),
    color_weights=(mx.float32, "color weights"),
)
_DIRECTIONS = Signature(
    basis=(mx.float32, "rays", DIRECTION_FEATURES), ray=(mx.int32, "slots"), used=(mx.int32, 1)
)
_GIVES = Signature(density=(mx.float32, "slots"), color=(mx.float32, "slots", 3))
_ROWS = Signature(features=(working_dtype, "slots", "features"))
_STORED = Signature(stored=(working_dtype, "size"))
_FORWARD_TAKES = Signature(**_ROWS, **_DIRECTIONS, **_STORED)
_STORE = Kernel(
    "networks",
    "networks_store",
    Signature(density=_TAKES["density_weights"], color=_TAKES["color_weights"]),
    _STORED,
)
_DENSITY = Kernel(
    "networks",
    "networks_density",
    Signature(**_ROWS, used=_DIRECTIONS["used"], **_STORED),
    Signature(density=_GIVES["density"]),
)
_FORWARD = Kernel("networks", "networks_forward", _FORWARD_TAKES, _GIVES)
_GRADIENT = Kernel(
    "networks",
    "networks_gradient",
    Signature(
        **_FORWARD_TAKES,
        d_density=_GIVES["density"],
        d_color=_GIVES["color"],
        groups=(mx.int32, 1),
    ),
    Signature(d_features=_ROWS["features"], d_weights=(mx.float32, "groups", "weights")),
    space="tile_value space[tile_space(networks_longest(IN, WIDTH), WIDTH, PADDING)]",
)


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


def networks(
    features: mx.array,
    basis: mx.array,
    ray: mx.array,
    used: mx.array,
    density_weights: mx.array,
    color_weights: mx.array,
    shape: NetworksShape,
) -> tuple[mx.array, mx.array]:
    """Evaluate the density and color networks for packed samples.

    Args:
        features: (slots, shape.features) float32. On a GPU, float16 is also supported.
        basis: (rays, 16) float32, spherical harmonics of each ray direction.
        ray: (slots,) int32, index of each sample's ray.
        used: (1,) int32, number of slots with samples. The results for the other slots are
            arbitrary and have no gradient.
        density_weights: (shape.density.weights,) float32.
        color_weights: (shape.color.weights,) float32.
        shape: Widths of the layers.

    Returns:
        Density (slots,) and color (slots, 3) in [0, 1], float32, differentiable with respect to
        `features` and the weights.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        Each network has one hidden layer, so its flat array contains two matrices. All weights are
        zero, so the outputs before the activations are zero. The density is therefore exp(0) = 1,
        and the color is sigmoid(0) = 0.5. The first 3 of 4 slots contain samples: two of ray 0 and
        one of ray 1.

        >>> from nerfmac.ops.networks import NetworksShape, networks
        >>> from nerfmac.ops.spherical_harmonics import spherical_harmonics
        >>> shape = NetworksShape(features=16, width=32, density_layers=1, color_layers=1)
        >>> shape.density.matrices, shape.density.weights  # 16 * 32 + 32 * 16
        ([(16, 32), (32, 16)], 1024)
        >>> density_weights = mx.zeros(shape.density.weights)
        >>> color_weights = mx.zeros(shape.color.weights)
        >>> basis = spherical_harmonics(mx.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
        >>> ray, used = mx.array([0, 0, 1, 0]), mx.array([3])
        >>> features = mx.ones((4, 16))
        >>> density, color = networks(
        ...     features, basis, ray, used, density_weights, color_weights, shape
        ... )
        >>> density[:3]
        array([1, 1, 1], dtype=float32)
        >>> color[:3]
        array([[0.5, 0.5, 0.5],
               [0.5, 0.5, 0.5],
               [0.5, 0.5, 0.5]], dtype=float32)
    """
    slots = _check(features, density_weights, color_weights, shape)
    _DIRECTIONS.check(basis, ray, used, slots=slots)
    features = features.astype(working_dtype())
    weights = density_weights, color_weights
    density, color, _ = _networks(features, basis, ray, used, *weights, shape=shape)
    return density, color


def networks_density(
    features: mx.array,
    density_weights: mx.array,
    color_weights: mx.array,
    shape: NetworksShape,
    used: mx.array | None = None,
) -> mx.array:
    """Evaluate only the density network, without a gradient.

    Args:
        features: (points, shape.features) float32. On a GPU, float16 is also supported.
        density_weights, color_weights: Weights as in `networks`.
        shape: Widths of the layers.
        used: (1,) int32, number of valid points, or None if all points are valid. The results for
            the other points are arbitrary.

    Returns:
        Density (points,) float32.

    Raises:
        InputError: If a shape or type is wrong.
    """
    points = _check(features, density_weights, color_weights, shape)
    used = mx.array([points], mx.int32) if used is None else used
    return _density(features, density_weights, color_weights, used, shape)


def stored_weights(density: mx.array, color: mx.array, shape: NetworksShape) -> mx.array:
    """Return the weights of both networks in the layout that `kernels/dialects/*/tile.h` defines,
    followed by the transposed matrices."""
    template = [each for each in shape.template if each[0] != "DENSITY_BIAS"]
    size = 2 * (density.size + color.size)
    (stored,) = _STORE(density, color, grid=(size, 1, 1), template=template, size=size)
    return stored


def _check(features: mx.array, density: mx.array, color: mx.array, shape: NetworksShape) -> int:
    """Check the shapes and types of the arguments, and return the number of rows of `features`."""
    weights = {"density weights": shape.density.weights, "color weights": shape.color.weights}
    return _TAKES.check(features, density, color, features=shape.features, **weights)["slots"]


@mx.custom_function
def truncated_exp(x: mx.array) -> mx.array:
    """Return exp(min(x, DENSITY_LIMIT)).

    As in Instant-NGP, the gradient is exp(x) with x clipped to [-DENSITY_LIMIT, DENSITY_LIMIT].
    """
    return mx.exp(mx.minimum(x, DENSITY_LIMIT))


@truncated_exp.vjp
def _truncated_exp_vjp(x, cotangent, _output):  # type: ignore[no-untyped-def]
    return cotangent * mx.exp(mx.clip(x, -DENSITY_LIMIT, DENSITY_LIMIT))


def mlp_reference(inputs: mx.array, weights: mx.array, shape: MlpShape) -> mx.array:
    """Evaluate a network in plain MLX.

    `inputs` has the shape (rows, shape.inputs), and the result has the shape (rows, shape.outputs).
    """
    *hidden, last = shape.split(weights)
    for matrix in hidden:
        inputs = mx.maximum(inputs @ matrix, 0.0)
    return inputs @ last


def _embedded(
    features: mx.array, weights: mx.array, shape: NetworksShape
) -> tuple[mx.array, mx.array]:
    """Return the density and the embedding of `features`, computed in plain MLX."""
    embedding = mlp_reference(features.astype(mx.float32), weights, shape.density)
    return cast(mx.array, truncated_exp(embedding[:, 0] - shape.density_bias)), embedding


def _density_reference(features, density_weights, _color_weights, _used, shape):  # type: ignore[no-untyped-def]
    return _embedded(features, density_weights, shape)[0]


@operation("networks", _density_reference)
def _density(features, density_weights, color_weights, used, shape):  # type: ignore[no-untyped-def]
    return _DENSITY(
        *(features.astype(working_dtype()), used),
        stored_weights(density_weights, color_weights, shape),
        **_tiles(features.shape[0]),
        template=shape.template[:4],  # without the color network's arguments
    )


def _reference(features, basis, ray, used, density_weights, color_weights, *, shape):  # type: ignore[no-untyped-def]
    is_used = mx.arange(features.shape[0]) < used
    # Slots without a sample may contain NaN, and zero times NaN is not zero.
    features = mx.where(is_used[:, None], features, 0.0)
    basis = mx.stop_gradient(basis)
    ray = mx.where(is_used, ray, 0)
    density, embedding = _embedded(features, density_weights, shape)
    inputs = mx.concatenate([embedding, basis[ray]], axis=1)
    color = mx.sigmoid(mlp_reference(inputs, color_weights, shape.color)[:, :3])
    color = mx.where(is_used[:, None], color, 0.0)
    return mx.where(is_used, density, 0.0), color, mx.array([])


@operation("networks", _reference)
def _networks(features, basis, ray, used, density_weights, color_weights, *, shape):  # type: ignore[no-untyped-def]
    """Return density and color, and the stored weights, so that the gradient can use them."""
    stored = stored_weights(density_weights, color_weights, shape)
    arrays = features, basis, ray, used, stored
    density, color = _FORWARD(*arrays, **_tiles(features.shape[0]), template=shape.template)
    return density, color, stored


@_networks.vjp
def _networks_vjp(primals, cotangents, outputs, *, shape):  # type: ignore[no-untyped-def]
    features, basis, ray, used, density_weights, color_weights = primals
    d_density, d_color, _ = cotangents
    groups = gradient_groups()
    d_features, partial = _GRADIENT(
        *(features, basis, ray, used, outputs[2], d_density, d_color),
        mx.array([groups], mx.int32),
        **_groups(groups),
        template=[*shape.template, ("PADDING", gradient_padding(shape))],
        groups=groups,
        weights=density_weights.size + color_weights.size,
    )
    d_weights = mx.split(partial.sum(axis=0), [density_weights.size])
    return d_features, *map(mx.zeros_like, (basis, ray, used)), *d_weights


def _tiles(rows: int) -> dict[str, Any]:
    """Return the launch arguments for a kernel in which each simdgroup computes one tile of the
    `rows` rows."""
    return _groups(-(-rows // (TILE_ROWS * _simdgroups())))


def _groups(groups: int) -> dict[str, Any]:
    threads = simd_width() * _simdgroups()
    return {"grid": (groups * threads, 1, 1), "group": threads}


def gradient_groups() -> int:
    """Return the number of threadgroups of the gradient kernel.

    Each threadgroup computes a partial sum of the weight gradients.
    """
    return _GROUPS[variant("networks_gradient")]


def gradient_padding(shape: NetworksShape) -> int:
    """Return the number of padding elements after each row of the gradient tiles.

    If threadgroup memory is insufficient for padding, the number is 0.
    """
    if simd_width() == 1:
        return 0
    padding = _PADDING[variant("networks_gradient_rows")]
    longest = max(shape.features, shape.width, shape.color.inputs)
    columns = longest + shape.width + 2 * padding
    size = _simdgroups() * TILE_ROWS * columns * mx.float16.size  # a tile_value on a GPU
    return padding if size <= _SPACE[current_device()] else 0


def _simdgroups() -> int:
    return OF_DEVICES["TILE_SIMDGROUPS"][current_device()]


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
