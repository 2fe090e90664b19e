"""The field of a snapshot: its configuration, its parameters, and `SnapshotField`."""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.config import Config, NetworkConfig, override
from nerfmac.config.presets import PRESETS
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.field import Parameters
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.networks_shape import BASIS, EMBEDDING
from nerfmac.snapshots.grid import SnapshotGrid, grid_config, read_levels
from nerfmac.snapshots.networks import Mlp, read_mlp

COLOURS = 3
DEGREE = 4
TYPES = {"__half": "<f2", "float": "<f4"}


class Described(NamedTuple):
    """What a snapshot says of its field."""

    config: Config
    levels: HashLevels
    density: Mlp
    colour: Mlp

    def field(self, bounds: Bounds) -> EncodedField:
        """The field of positions within `bounds`."""
        grid = SnapshotGrid(self.config.grid, bounds, self.levels)
        return EncodedField(grid, self.config.networks)


def read_field(file: Fields, extent: float) -> Described:
    """What the snapshot's networks and encodings are. Raises `InputError` for what nerfmac lacks.

    Where the two networks differ in width, the narrower is filled up with neurons that do nothing.
    """
    features, levels = read_levels(file.object("encoding"), extent)
    _check_direction(file.object("dir_encoding"))
    density = read_mlp(file.object("network"), levels.levels * features, EMBEDDING)
    colour = read_mlp(file.object("rgb_network"), EMBEDDING + BASIS, COLOURS)
    networks = NetworkConfig(
        max(density.width, colour.width), density.layers, colour.layers, density_bias=0
    )
    try:
        grid = grid_config(features, levels, extent)
        config = override(PRESETS["base"], grid=grid, networks=networks)
    except InputError as error:
        raise InputError(f"{file.where}: {error}") from error
    return Described(config, levels, density, colour)


def read_parameters(snapshot: Fields, described: Described, field: EncodedField) -> Parameters:
    """The parameters by name, float32. Raises `InputError` if there are more or fewer."""
    given, features = _numbers(snapshot), described.config.grid.features
    sizes = (
        described.density.weights,
        described.colour.weights,
        described.levels.entries * features,
    )
    if len(given) != sum(sizes):
        raise InputError(
            f"{snapshot.where}: params_binary has {len(given)} numbers; the networks and the grid "
            f"that it describes have {sum(sizes)}"
        )
    density, colour, table = np.split(given, np.cumsum(sizes)[:2])
    shape = field.networks_shape
    return {
        "table": mx.array(table.reshape(-1, features)),
        "density": mx.array(described.density.to_ours(density, shape.density)),
        "colour": mx.array(described.colour.to_ours(colour, shape.colour)),
    }


def _numbers(snapshot: Fields) -> npt.NDArray[np.float32]:
    data: Any = snapshot.values.get("params_binary")
    if not isinstance(data, bytes):
        raise InputError(f"{snapshot.where}: params_binary is missing or no binary data")
    kind = snapshot.text("params_type") if "params_type" in snapshot else "__half"
    if kind not in TYPES:
        raise snapshot.wrong("params_type", "__half or float")
    if len(data) % np.dtype(TYPES[kind]).itemsize:
        raise InputError(f"{snapshot.where}: params_binary is cut off")
    values = np.frombuffer(data, TYPES[kind]).astype(np.float32)
    if not np.isfinite(values).all():
        raise InputError(f"{snapshot.where}: params_binary has numbers that are not finite")
    return values


def _check_direction(encoding: Fields) -> None:
    """Raise `InputError` unless directions are encoded by spherical harmonics of degree 4."""
    first = encoding
    if encoding.text("otype").lower() == "composite":
        first, *others = encoding.objects("nested")
        for other in others:  # it encodes what is left of the direction: nothing
            if other.text("otype").lower() != "identity":
                raise other.wrong("otype", "Identity")
    if first.text("otype").lower() != "sphericalharmonics":
        raise first.wrong("otype", "SphericalHarmonics, the encoding that nerfmac has")
    if first.count("degree", DEGREE) != DEGREE:
        raise first.wrong("degree", str(DEGREE))
