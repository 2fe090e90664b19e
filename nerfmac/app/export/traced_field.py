"""`TracedField`: a run's field as the shaders of `kernels/wgsl` read it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.run import Run
from nerfmac.backend.sources import kernels_folder
from nerfmac.common.checks import InputError
from nerfmac.common.constants import shader_declarations
from nerfmac.common.halves import to_halves
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import HashGrid
from nerfmac.ops.networks_shape import MlpShape, NetworksShape

TRACE_FILES = (
    "trace",
    "bounds",
    "march",
    "occupancy",
    "hash_encode",
    "spherical_harmonics",
    "networks",
)
"""Names of the files of the shader that traces images."""


class TracedField(NamedTuple):
    """A field with the occupancy grid in which it is sampled."""

    constants: dict[str, int | float]
    """The shader's constants: sizes of the table and the networks."""
    march: dict[str, float]
    """The scene's cube, the grid and the steps, by the names of `MarchSettings` in march.wgsl."""
    levels: list[tuple[float, int, int, int]]
    """Scale, vertices along an axis, first entry and entries of each level."""
    table: bytes
    """The levels' features, a byte each: a number in the level's list of `values`."""
    values: bytes
    """256 float16 values a level; see `quantized`."""
    weights: bytes
    """The matrices of the density network, then the color network, in blocks of 4 x 4, float16."""
    bits: bytes
    """The occupancy grid, uint32, as in `ops.march.Occupied`."""

    @classmethod
    def of(cls, run: Run) -> TracedField:
        """The field of a run with averaged parameters. Raises `InputError` for other models."""
        field, state = run.trainer.field, run.state
        if not isinstance(field, EncodedField) or not isinstance(field.encoding, HashGrid):
            raise InputError(
                "the page's shader evaluates a hash grid with two networks; the run has another "
                "field"
            )
        occupied = run.trainer.sampler.occupied(state.sampling)
        if occupied is None:
            raise InputError("the page needs an occupancy grid; the run's sampler keeps none")
        levels, geometry = field.encoding.levels, occupied.geometry
        table, density, color = (
            np.array(state.average[name]) for name in ("table", "density", "color")
        )
        extent = geometry.bounds.extent
        parts = [quantized(table[first : first + entries]) for _, first, entries in levels.shapes]
        shape = field.networks_shape
        blocks = _blocks(density, shape.density) + _blocks(color, shape.color)
        return cls(
            _constants(shape, table.shape[1]),
            {
                "extent": extent,
                "near": geometry.near,
                "step": geometry.step,
                "cone": geometry.cone,
                "resolution": geometry.resolution,
                "cascades": geometry.bounds.cascades,
            },
            [(scale, *shape) for scale, shape in zip(levels.scales, levels.shapes, strict=True)],
            b"".join(codes.tobytes() for codes, _ in parts),
            b"".join(values.tobytes() for _, values in parts),
            to_halves(np.concatenate(blocks)).tobytes(),
            np.array(occupied.bits).astype("<u4").tobytes(),
        )

    @property
    def shader(self) -> str:
        """The shader that traces images, but for the type `half` (see trace.wgsl)."""
        lines = [
            f"const {name}: {'f32' if isinstance(value, float) else 'u32'} = {value};\n"
            for name, value in self.constants.items()
        ]
        return "".join(lines) + shader_declarations() + "\n".join(map(wgsl, TRACE_FILES))


def wgsl(name: str) -> str:
    """The text of `kernels/wgsl/<name>.wgsl`."""
    return (kernels_folder() / "wgsl" / f"{name}.wgsl").read_text(encoding="ascii")


def quantized(
    features: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """The `features` of one level as uint8 codes of their shape, and the 256 values of the codes.

    The values are m sign(u) |u|^1.5 for evenly spaced u in [-1, 1] and the largest feature m: most
    features are small. Images differ by 65 dB or more from those of the exact features, a decibel
    or two more than with even steps. The last value is not used.
    """
    even = np.linspace(-1.0, 1.0, 255)
    largest = float(np.abs(features).max(initial=0.0))
    values = to_halves(np.append(largest * np.sign(even) * np.abs(even) ** 1.5, 0.0))
    borders = 0.5 * (values[1:-1].astype(np.float32) + values[:-2].astype(np.float32))
    return np.searchsorted(borders, features).astype(np.uint8), values


def _blocks(weights: npt.NDArray[np.float32], shape: MlpShape) -> list[npt.NDArray[np.float32]]:
    """Each matrix of the flat `weights`, cut into blocks of 4 x 4, row by row of blocks."""
    blocks, first = [], 0
    for rows, columns in shape.matrices:
        matrix = weights[first : first + rows * columns]
        cut = matrix.reshape(rows // 4, 4, columns // 4, 4).transpose(0, 2, 1, 3)
        blocks.append(cut.ravel())
        first += rows * columns
    return blocks


def _constants(shape: NetworksShape, features: int) -> dict[str, Any]:
    return {
        "LEVELS": shape.features // features,
        "FEATURES": features,
        "WIDTH": shape.width,
        "DENSITY_LAYERS": shape.density_layers,
        "COLOR_LAYERS": shape.color_layers,
        "DENSITY_BIAS": float(shape.density_bias),
    }
