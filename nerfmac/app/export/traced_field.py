"""`TracedField`, a trained field in the format that the shaders in `kernels/wgsl` read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.run import Run
from nerfmac.backend.sources import kernels_folder
from nerfmac.common.checks import InputError
from nerfmac.common.constants import shader_declarations
from nerfmac.common.halves import to_halves
from nerfmac.config.sampling import NEAR
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
"""Names of the WGSL files that form the shader for rendering images."""


class TracedField(NamedTuple):
    """Field and occupancy grid of a run as data for the WGSL shader of the page."""

    constants: dict[str, int | float]
    """Constants of the shader: sizes of the table and of the networks."""
    march: dict[str, float]
    """Parameters of the scene cube, the occupancy grid, and the marching steps, as `MarchSettings`
    in march.wgsl."""
    levels: list[tuple[float, int, int, int]]
    """For each level: scale, number of vertices along an axis, index of the first table entry, and
    number of table entries."""
    table: bytes
    """Features of all levels, quantized to one byte: the index among the 256 `values` of the
    level."""
    values: bytes
    """Lookup tables from feature codes to float16 values, with 256 entries for each level; see
    `quantized`."""
    weights: bytes
    """Float16 matrices of the density network, then of the color network, stored in 4 x 4
    blocks."""
    bits: bytes
    """Bits of the occupancy grid in uint32 words, one bit per cell, as in `ops.march.Occupied`."""

    @classmethod
    def of(cls, run: Run) -> TracedField:
        """Convert a trained field to shader data. Raises `InputError` unless the field is a hash
        grid with two networks and the sampler has an occupancy grid."""
        field, state = run.trainer.field, run.state
        if not isinstance(field, EncodedField) or not isinstance(field.encoding, HashGrid):
            raise InputError(
                "the shader of the page only supports a hash grid with two networks, but the run "
                "has another field"
            )
        occupied = run.trainer.sampler.occupied(state.sampling)
        if occupied is None:
            raise InputError(
                "the page requires an occupancy grid, but the sampler of the run has none"
            )
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
                # A user of the page may approach any object, and the near plane is constant.
                "near": min(geometry.near, NEAR),
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
        """WGSL source code of the shader, without the definition of the type `half` (see
        trace.wgsl)."""
        lines = [
            f"const {name}: {'f32' if isinstance(value, float) else 'u32'} = {value};\n"
            for name, value in self.constants.items()
        ]
        return "".join(lines) + shader_declarations() + "\n".join(map(wgsl, TRACE_FILES))


def wgsl(name: str) -> str:
    """Return the source code in `kernels/wgsl/<name>.wgsl`."""
    return (kernels_folder() / "wgsl" / f"{name}.wgsl").read_text(encoding="ascii")


def quantized(
    features: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """Quantize the features of a level to uint8 codes, and return the codes and their 256 float16
    values.

    The values are m sign(u) |u|^1.5 for 255 evenly spaced u in [-1, 1], where m is the maximum
    absolute feature. Values close to zero are denser, because most features are small. The PSNR of
    renderings relative to renderings with exact features is at least 65 dB. With evenly spaced
    values, it would be 1 to 2 dB lower.
    """
    even = np.linspace(-1.0, 1.0, 255)
    largest = float(np.abs(features).max(initial=0.0))
    values = to_halves(np.append(largest * np.sign(even) * np.abs(even) ** 1.5, 0.0))
    borders = 0.5 * (values[1:-1].astype(np.float32) + values[:-2].astype(np.float32))
    return np.searchsorted(borders, features).astype(np.uint8), values


def _blocks(weights: npt.NDArray[np.float32], shape: MlpShape) -> list[npt.NDArray[np.float32]]:
    """Return each matrix of the flat `weights` as 4 x 4 blocks, in row-major order of blocks."""
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
