"""The radiance field in PyTorch: hash encoding, spherical harmonics, two networks.

The rules are the same as in `nerfmac.ops.hash_encode`, `nerfmac.ops.spherical_harmonics`, and
`nerfmac.fields.encoded`. All levels and all eight corners of a cell are computed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from nerfmac.common.constants import DENSITY_LIMIT
from nerfmac.config import Config
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.networks import MlpShape, NetworksShape

Arrays = Mapping[str, np.ndarray]


class _Lookup(torch.autograd.Function):
    """Weighted sums of eight table entries each.

    On a GPU, plain indexing is used, because `torch.compile` fuses it with the computation of the
    indices. On a CPU, `embedding_bag` is ten times faster, and the fastest way to compute the
    gradient is feature by feature.
    """

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        context, table: torch.Tensor, entry: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        context.save_for_backward(entry, weight)
        context.shape = table.shape
        if table.device.type == "cpu":
            return functional.embedding_bag(entry, table, per_sample_weights=weight, mode="sum")
        return (table[entry] * weight[..., None]).sum(1)

    @staticmethod
    def backward(context, gradient: torch.Tensor):  # type: ignore[no-untyped-def]
        entry, weight = context.saved_tensors
        to_table = gradient.new_zeros(context.shape)
        if gradient.device.type == "cpu":
            for column, values in zip(to_table.unbind(1), gradient.unbind(1), strict=True):
                column.scatter_add_(0, entry.flatten(), (weight * values[:, None]).flatten())
        else:
            added = (weight[..., None] * gradient[:, None]).flatten(0, 1)
            to_table.index_add_(0, entry.flatten(), added)
        return to_table, None, None


# On a CPU, the gradient compiled with `torch.compile` takes ten times longer.
_look_up_eagerly = torch.compiler.disable(_Lookup.apply)


class _TruncatedExp(torch.autograd.Function):
    """The density exp(x), with the limits of `nerfmac.ops.networks.truncated_exp`."""

    @staticmethod
    def forward(context, x: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
        context.save_for_backward(x)
        return torch.exp(x.clamp_max(DENSITY_LIMIT))

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
        x = context.saved_tensors[0]
        return gradient * torch.exp(x.clamp(-DENSITY_LIMIT, DENSITY_LIMIT))


class TorchField(torch.nn.Module):
    """Field that computes density and color at positions. Parameters are float32."""

    def __init__(self, config: Config, extent: float, parameters: Arrays) -> None:
        """Create the field. `parameters` contains `table`, `density`, and `color`, as returned by
        `EncodedField.init`."""
        super().__init__()
        grid, networks = HashGrid(config.grid, Bounds(extent)), config.networks
        self._thinness = networks.density_bias
        shape = NetworksShape(
            grid.outputs, networks.width, networks.density_layers, networks.color_layers
        )
        self.table = torch.nn.Parameter(torch.tensor(parameters["table"]))
        self.density_layers, self.color_layers = (
            torch.nn.ParameterList(_matrices(parameters[name], each))
            for name, each in (("density", shape.density), ("color", shape.color))
        )
        self._add_levels(grid)

    def _add_levels(self, grid: HashGrid) -> None:
        """Store the parameters of the levels as device buffers."""
        levels = grid.levels
        vertices, first, entries = np.array(levels.shapes).T
        is_hashed = np.array([levels.is_hashed(level) for level in range(levels.levels)])
        # The vertex (x, y, z) has the index x + stride_y y + stride_z z, or the same with XOR.
        # Products wrap at 32 bits. Their sign has no effect: sizes of hashed levels are powers of
        # two, and products of other levels are small.
        strides = np.stack(
            [
                np.where(is_hashed, 2654435761, vertices),
                np.where(is_hashed, 805459861, vertices.astype(np.int64) ** 2),
            ]
        )
        strides = strides.astype(np.uint32).view(np.int32)
        for name, values in (
            ("_grids", np.array(levels.grids, np.float32).T[:, :, None]),
            ("_strides", strides),
            ("_is_hashed", is_hashed[:, None]),
            ("_first", first[:, None]),
            ("_entries", entries[:, None]),
        ):
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(values)))
        self._most = 2**levels.log2_entries

    def export(self) -> dict[str, np.ndarray]:
        """Return the parameters in the layout of nerfmac."""
        networks = {"density": self.density_layers, "color": self.color_layers}
        flat = {name: torch.cat([m.flatten() for m in layers]) for name, layers in networks.items()}
        tensors = {"table": self.table, **flat}
        return {name: values.detach().cpu().numpy() for name, values in tensors.items()}

    def encode(self, position: torch.Tensor) -> torch.Tensor:
        """Return the features (points, levels * features) at `position` (points, 3) in scene
        coordinates."""
        entry, weight = (each.flatten(0, 1) for each in self._corners(position))
        look_up = _look_up_eagerly if self.table.device.type == "cpu" else _Lookup.apply
        encoded = look_up(self.table, entry, weight)
        return encoded.view(position.shape[0], -1)

    def _corners(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return table entries and weights of the cell corners, both (points, levels, 8)."""
        scale, offset = self._grids
        place = position[:, None] * scale + offset  # (points, levels, 3)
        lowest = place.floor()
        fraction = place - lowest
        vertex = lowest.int()
        low, high = vertex.unbind(-1), (vertex + 1).unbind(-1)
        stride_y, stride_z = self._strides
        x = torch.stack([low[0], high[0]], -1)[:, :, None, None, :]
        y = torch.stack([low[1] * stride_y, high[1] * stride_y], -1)[:, :, None, :, None]
        z = torch.stack([low[2] * stride_z, high[2] * stride_z], -1)[:, :, :, None, None]
        hashed = (x ^ y ^ z).flatten(2) & (self._most - 1)
        dense = (x + y + z).flatten(2).long() % self._entries
        entry = torch.where(self._is_hashed, hashed.long(), dense) + self._first
        along_axis = torch.stack([1.0 - fraction, fraction], -1)  # (points, levels, 3, 2)
        weight_x, weight_y, weight_z = along_axis.unbind(2)
        weight = weight_x[:, :, None, None, :] * weight_y[:, :, None, :, None]
        weight = weight * weight_z[:, :, :, None, None]
        return entry, weight.flatten(2)

    def density(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the density (points,) per scene unit and the embedding (points, 16) at `position`
        (points, 3)."""
        embedding = _network(self.encode(position), self.density_layers)
        return _TruncatedExp.apply(embedding[:, 0].float() - self._thinness), embedding

    def color(self, embedding: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
        """Return colors (points, 3) in [0, 1] from the embedding and the directional basis."""
        inputs = torch.cat([embedding, basis.to(embedding.dtype)], 1)
        return torch.sigmoid(_network(inputs, self.color_layers)[:, :3].float())


def _matrices(weights: np.ndarray, shape: MlpShape) -> list[torch.nn.Parameter]:
    sizes = [rows * columns for rows, columns in shape.matrices]
    parts = torch.tensor(weights).split(sizes)
    both = zip(parts, shape.matrices, strict=True)
    return [torch.nn.Parameter(part.view(matrix).clone()) for part, matrix in both]


def _network(inputs: torch.Tensor, matrices: Any) -> torch.Tensor:
    *hidden, last = matrices
    for matrix in hidden:
        inputs = torch.relu(inputs @ matrix)
    return inputs @ last


def spherical_harmonics(direction: torch.Tensor) -> torch.Tensor:
    """Return the basis (count, 16) of orders 0 to 3 at unit directions (count, 3)."""
    x, y, z = direction.unbind(1)
    x2, y2, z2 = x * x, y * y, z * z
    return torch.stack(
        [
            torch.full_like(x, 0.28209479177387814),
            -0.48860251190291987 * y,
            0.48860251190291987 * z,
            -0.48860251190291987 * x,
            1.0925484305920792 * x * y,
            -1.0925484305920792 * y * z,
            0.31539156525251999 * (3.0 * z2 - 1.0),
            -1.0925484305920792 * x * z,
            0.54627421529603959 * (x2 - y2),
            -0.59004358992664352 * y * (3.0 * x2 - y2),
            2.8906114426405538 * x * y * z,
            -0.45704579946446572 * y * (5.0 * z2 - 1.0),
            0.3731763325901154 * z * (5.0 * z2 - 3.0),
            -0.45704579946446572 * x * (5.0 * z2 - 1.0),
            1.4453057213202769 * z * (x2 - y2),
            -0.59004358992664352 * x * (x2 - 3.0 * y2),
        ],
        1,
    )
