"""Reading of the field of a snapshot: networks, grid, and parameters.

The matrix of a layer has the shape (outputs, inputs) in tiny-cuda-nn and (inputs, outputs) in
nerfmac, both in row-major order. tiny-cuda-nn pads the number of rows of the last layer to a
multiple of 16, or of 8 for a CutlassMLP.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common import COLOR_INPUTS, NETWORK_OUTPUTS, Fields, Float32Array, InputError
from nerfmac.config import PRESETS, Config, HashGridConfig, NetworkConfig, override
from nerfmac.config.fields import FEATURES, WIDTHS
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import HashGrid
from nerfmac.fields.field import Parameters
from nerfmac.geometry import Bounds
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.networks import MlpShape

COLORS, DEGREE = 3, 4
TYPES = {"__half": "<f2", "float": "<f4"}
LAST_ROWS = {"fullyfusedmlp": 16, "megakernelmlp": 16, "cutlassmlp": 8}
"""Multiple to which each type of network pads the number of rows of its last layer."""
LAYERS = range(1, 5)
FINEST = 2048.0  # Default number of cells per scene unit at the finest level.
MOST_LEVELS, MOST_LOG2_ENTRIES, MOST_CELLS = 128, 30, 2**20
"""Maximum number of levels, base-2 logarithm of entries per level, and cells along an axis."""
UNLIMITED = 62  # Value of `log2_entries` for a dense grid, large enough that no level is hashed.


@dataclass(frozen=True)
class SinglePrecisionLevels(HashLevels):
    """`HashLevels` with scales computed in float32, like `grid_scale` of tiny-cuda-nn: exp2(level
    log2(growth)) coarsest - 1"""

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Number of grid units per unit of position, for each level."""
        level = np.arange(self.levels, dtype=np.float32)
        power = np.exp2(level * np.log2(np.float32(self.growth)))
        return tuple((power * np.float32(self.coarsest) - np.float32(1.0)).tolist())


@dataclass(frozen=True)
class SnapshotGrid(HashGrid):
    """Hash encoding with the levels of a snapshot."""

    snapshot_levels: HashLevels

    @cached_property
    def levels(self) -> HashLevels:
        """Levels of the snapshot."""
        return self.snapshot_levels


class Mlp(NamedTuple):
    """Sizes of a network in a snapshot."""

    inputs: int
    width: int
    layers: int  # number of hidden layers
    outputs: int  # rows of the last layer, including padding

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape (outputs, inputs) of the matrix of each layer."""
        widths = [self.inputs, *[self.width] * self.layers, self.outputs]
        return list(zip(widths[1:], widths[:-1], strict=True))

    @property
    def weights(self) -> int:
        """Total number of weights of all layers, including padding."""
        return sum(rows * columns for rows, columns in self.shapes)

    def to_ours(self, weights: Float32Array, shape: MlpShape) -> Float32Array:
        """Convert flat weights of a snapshot to flat weights for `shape`, which must be at least as
        large as this network. Additional weights are zero."""
        flat, first = [], 0
        for (rows, columns), (inputs, outputs) in zip(self.shapes, shape.matrices, strict=True):
            matrix = np.zeros((inputs, outputs), np.float32)
            stored = weights[first : first + rows * columns].reshape(rows, columns)
            matrix[:columns, :rows] = stored.T
            flat.append(matrix.ravel())
            first += rows * columns
        return np.concatenate(flat)


class SnapshotFieldShape(NamedTuple):
    """Configuration and sizes of the field of a snapshot."""

    config: Config
    levels: HashLevels
    density: Mlp
    color: Mlp

    def field(self, bounds: Bounds) -> EncodedField:
        """Create the field for positions within `bounds`."""
        grid = SnapshotGrid(self.config.grid, bounds, self.levels)
        return EncodedField(grid, self.config.networks)


def read_field(file: Fields, extent: float) -> SnapshotFieldShape:
    """Read the sizes of the networks and the encodings. If the two networks have different widths,
    the narrower network is padded with neurons that have no effect."""
    features, levels = _read_levels(file.object("encoding"), extent)
    _check_direction(file.object("dir_encoding"))
    density = _read_mlp(file.object("network"), levels.levels * features, NETWORK_OUTPUTS)
    color = _read_mlp(file.object("rgb_network"), COLOR_INPUTS, COLORS)
    width = max(density.width, color.width)
    # This configuration is similar to the snapshot and is used only for the size of the grid.
    cells = levels.coarsest * levels.growth ** (levels.levels - 1) / extent
    finest = min(max(round(cells), levels.coarsest, 4), 2**20)
    entries = min(max(levels.log2_entries, 8), 24)
    try:
        grid = HashGridConfig(levels.levels, features, entries, levels.coarsest, finest)
        networks = NetworkConfig(width, density.layers, color.layers, density_bias=0)
        config = override(PRESETS["base"], grid=grid, networks=networks)
    except InputError as error:
        raise InputError(f"{file.where}: {error}") from error
    return SnapshotFieldShape(config, levels, density, color)


def read_parameters(snapshot: Fields, shape: SnapshotFieldShape, field: EncodedField) -> Parameters:
    """Return the float32 parameters of `field`."""
    networks = field.networks_shape
    values, features = _numbers(snapshot), shape.config.grid.features
    sizes = shape.density.weights, shape.color.weights, shape.levels.entries * features
    if len(values) != sum(sizes):
        raise InputError(
            f"{snapshot.where}: params_binary has {len(values)} numbers; the networks and the grid "
            f"that it describes have {sum(sizes)}"
        )
    density, color, table = np.split(values, np.cumsum(sizes)[:2])
    return {
        "table": mx.array(table.reshape(-1, features)),
        "density": mx.array(shape.density.to_ours(density, networks.density)),
        "color": mx.array(shape.color.to_ours(color, networks.color)),
    }


def _read_levels(encoding: Fields, extent: float) -> tuple[int, HashLevels]:
    """Return the number of features per level, and the levels, of a HashGrid or a DenseGrid."""
    kind = encoding.text("otype").lower()
    if kind == "grid":
        kind = f"{encoding.text('type') if 'type' in encoding else 'hash'}grid".lower()
    if kind not in ("hashgrid", "densegrid"):
        raise encoding.wrong("otype", "HashGrid or DenseGrid, the encodings that nerfmac supports")
    if "interpolation" in encoding and encoding.text("interpolation").lower() != "linear":
        raise encoding.wrong("interpolation", "Linear, the only supported interpolation")
    features = encoding.count("n_features_per_level", 2)
    if features not in FEATURES:
        raise encoding.wrong("n_features_per_level", "1, 2, 4 or 8")
    levels = _up_to(MOST_LEVELS, encoding, "n_levels", 16)
    if encoding.values.get("n_features"):
        levels = _up_to(MOST_LEVELS * features, encoding, "n_features") // features
    log2_entries = _up_to(MOST_LOG2_ENTRIES, encoding, "log2_hashmap_size", 19)
    # This is the default of instant-ngp. The default of tiny-cuda-nn differs.
    coarsest = 2 ** ((log2_entries if "log2_hashmap_size" in encoding else 15) // 3)
    if encoding.values.get("base_resolution"):
        coarsest = _up_to(MOST_CELLS, encoding, "base_resolution")
    growth = encoding.number("per_level_scale", 0.0)
    if growth <= 0.0:
        growth = (FINEST * extent / coarsest) ** (1.0 / (levels - 1)) if levels > 1 else 1.0
    if growth < 1.0 or math.log(growth) * (levels - 1) > math.log(MOST_CELLS / coarsest):
        finest = f"up to {MOST_CELLS} cells along an axis at the finest level"
        raise encoding.wrong("per_level_scale", f"a factor of at least 1 that gives {finest}")
    most = UNLIMITED if kind == "densegrid" else log2_entries
    return features, SinglePrecisionLevels(levels, most, coarsest, growth, extent)


def _up_to(most: int, encoding: Fields, key: str, default: int | None = None) -> int:
    """Return the integer at `key`, or `default` if the key is missing. Raise `InputError` if it is
    larger than `most`."""
    count = encoding.count(key, default)
    if count > most:
        raise encoding.wrong(key, f"up to {most}")
    return count


def _check_direction(encoding: Fields) -> None:
    """Raise `InputError` unless directions are encoded with spherical harmonics of degree 4."""
    first = encoding
    if encoding.text("otype").lower() == "composite":
        first, *others = encoding.objects("nested")
        for other in others:  # encodings of components that do not exist
            if other.text("otype").lower() != "identity":
                raise other.wrong("otype", "Identity")
    if first.text("otype").lower() != "sphericalharmonics":
        raise first.wrong("otype", "SphericalHarmonics, the encoding that nerfmac supports")
    if first.count("degree", DEGREE) != DEGREE:
        raise first.wrong("degree", str(DEGREE))


def _read_mlp(network: Fields, inputs: int, outputs: int) -> Mlp:
    """Read the sizes of a network."""
    kind = network.text("otype").lower()
    if kind not in LAST_ROWS:
        raise network.wrong("otype", "FullyFusedMLP or CutlassMLP")
    for key, expected in (("activation", "ReLU"), ("output_activation", "None")):
        if key in network and network.text(key).lower() != expected.lower():
            raise network.wrong(key, f"{expected}, the only value that nerfmac supports")
    if "n_output_dims" in network and network.count("n_output_dims") != outputs:
        raise network.wrong("n_output_dims", str(outputs))
    width, layers = network.count("n_neurons", 128), int(network.number("n_hidden_layers", 5))
    if width not in WIDTHS:
        raise network.wrong("n_neurons", "16, 32, 64 or 128")
    if layers not in LAYERS:
        raise network.wrong("n_hidden_layers", "1 to 4, which nerfmac's networks support")
    rows = -(-outputs // LAST_ROWS[kind]) * LAST_ROWS[kind]
    return Mlp(inputs, width, layers, rows)


def _numbers(snapshot: Fields) -> Float32Array:
    data: Any = snapshot.values.get("params_binary")
    if not isinstance(data, bytes):
        raise InputError(f"{snapshot.where}: params_binary is missing or not binary data")
    kind = snapshot.text("params_type") if "params_type" in snapshot else "__half"
    if kind not in TYPES:
        raise snapshot.wrong("params_type", "__half or float")
    if len(data) % np.dtype(TYPES[kind]).itemsize:
        raise InputError(f"{snapshot.where}: params_binary is truncated")
    values = np.frombuffer(data, TYPES[kind]).astype(np.float32)
    if not np.isfinite(values).all():
        raise InputError(f"{snapshot.where}: params_binary has numbers that are not finite")
    return values
