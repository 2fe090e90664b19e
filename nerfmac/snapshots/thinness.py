"""A run's `thinness`, which instant-ngp's field lacks, as weights of its density network.

nerfmac may subtract a constant from the logarithm of the density; the networks have no biases that
could. So levels are added to the grid, as many as fill 16 features: in the first of them the first
feature is 1 everywhere, and so is its interpolation; the others are 0. A neuron more in each hidden
layer passes the 1 on, and the last layer subtracts the constant, exactly in half precision.

The colour network reads that logarithm as it was before. It gets the constant back by the first
spherical harmonic, which is the same for all directions: exactly but for the weights' rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.config.fields import WIDTHS
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.networks_shape import EMBEDDING, MlpShape

Array = npt.NDArray[np.float32]

FIRST_HARMONIC = 0.28209479177387814
"""1 / (2 sqrt(pi))."""

UNIT = 16
"""The features that levels are added by."""


class Flat(NamedTuple):
    """A grid, the density network that reads it, and the colour network, which stays as large."""

    levels: HashLevels
    table: Array  # (entries, features)
    density: Array  # flat
    shape: MlpShape  # of the density network
    colour: Array  # flat
    colour_shape: MlpShape


def folded(flat: Flat, thinness: float) -> Flat:
    """The same field with levels and neurons that subtract `thinness`. Raises `InputError`."""
    shape, features = flat.shape, flat.table.shape[1]
    wider = [width for width in WIDTHS if width > shape.hidden]
    if not wider:
        raise InputError(
            f"networks.thinness is {thinness:g} and its networks have no wider ones in instant-ngp"
        )
    levels: HashLevels = replace(flat.levels, levels=flat.levels.levels + UNIT // features)
    table = np.zeros((levels.entries, features), np.float32)
    table[: len(flat.table)] = flat.table
    first, entries = levels.shapes[flat.levels.levels][1:]
    table[first : first + entries, 0] = 1.0
    density, larger = _subtracting(flat, wider[0], thinness)
    colour = _given_back(flat, thinness)
    return Flat(levels, table, density, larger, colour, flat.colour_shape)


def _subtracting(flat: Flat, width: int, thinness: float) -> tuple[Array, MlpShape]:
    """The density network's weights and shape."""
    shape = flat.shape
    larger = MlpShape(shape.inputs + UNIT, width, shape.hidden_layers, shape.outputs)
    parts: list[Array] = []
    start, source = 0, shape.inputs  # the row that holds the 1
    for (rows, columns), (inputs, outputs) in zip(shape.matrices, larger.matrices, strict=True):
        matrix = np.zeros((inputs, outputs), np.float32)
        matrix[:rows, :columns] = flat.density[start : start + rows * columns].reshape(
            rows, columns
        )
        is_last = len(parts) == shape.hidden_layers
        matrix[source, 0 if is_last else shape.hidden] += -thinness if is_last else 1.0
        parts.append(matrix.ravel())
        start, source = start + rows * columns, shape.hidden
    return np.concatenate(parts), larger


def _given_back(flat: Flat, thinness: float) -> Array:
    """The colour network's weights."""
    rows, columns = flat.colour_shape.matrices[0]
    colour = flat.colour.copy()
    first = colour[: rows * columns].reshape(rows, columns)
    first[EMBEDDING] += thinness / FIRST_HARMONIC * first[0]
    return colour
