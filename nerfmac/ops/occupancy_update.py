"""Selection of occupancy grid cells, and grid updates with density estimates.

Müller et al. 2022, appendix E.2, describe the method.
"""

from __future__ import annotations

import mlx.core as mx

from nerfmac.backend import Kernel
from nerfmac.common import checks
from nerfmac.common.constants import BRICK_CELLS
from nerfmac.ops.operation import operation
from nerfmac.ops.signature import Signature

_SPLAT_TAKES = Signature(cells=(mx.int32, "estimates"), estimates=(mx.float32, "estimates"))
_PACK_TAKES = Signature(values=(mx.float32, "count"), threshold=(mx.float32, 1))
_CHOOSE_TAKES = Signature(bits=(mx.uint32, "words"), draws=(mx.uint32, "count"))
_SPLAT = Kernel(
    "occupancy_update",
    "occupancy_splat",
    inputs=_SPLAT_TAKES.names,
    outputs=("peaks",),
    rows="cells_shape[0]",
    accumulates=True,
)
_PACK = Kernel(
    "occupancy_update", "occupancy_pack", _PACK_TAKES.names, ("bits",), rows="values_shape[0]"
)
_CHOOSE = Kernel(
    "occupancy_update",
    "occupancy_choose",
    inputs=("bits", "ends", "draws", "words"),
    outputs=("cells",),
    rows="draws_shape[0]",
)


def splat(cells: mx.array, estimates: mx.array, count: int) -> mx.array:
    """Return the largest estimate in each cell, or 0 in cells without an estimate.

    Args:
        cells: (estimates,) int32, in [0, count).
        estimates: (estimates,) float32, not negative.
        count: Number of cells.

    Returns:
        float32 array (count,) without a gradient.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _SPLAT_TAKES.check(cells, estimates)
    return _splat(cells, mx.stop_gradient(estimates), count)


def _splat_reference(cells: mx.array, estimates: mx.array, count: int) -> mx.array:
    return mx.zeros(count).at[cells].maximum(estimates)


@operation("occupancy_update", _splat_reference)
def _splat(cells: mx.array, estimates: mx.array, count: int) -> mx.array:
    grid, shape = (cells.shape[0], 1, 1), (count,)
    (peaks,) = _SPLAT(cells, estimates, grid=grid, output_shapes=[shape], output_dtypes=[mx.uint32])
    return mx.view(peaks, mx.float32)


def pack_bits(values: mx.array, threshold: mx.array) -> mx.array:
    """Pack one bit per value: 1 if the value is above the threshold, otherwise 0.

    Args:
        values: (count,) float32. `count` is a multiple of BRICK_CELLS.
        threshold: (1,) float32.

    Returns:
        uint32 array (count / BRICK_CELLS,). The lowest bit of each word belongs to its first value.

    Raises:
        InputError: If a shape or type is wrong.
    """
    count = _PACK_TAKES.check(values, threshold)["count"]
    if count % BRICK_CELLS:
        raise checks.InputError(
            f"values has shape {values.shape}; expected a multiple of {BRICK_CELLS} values"
        )
    return _pack(values, threshold)


def _pack_reference(values: mx.array, threshold: mx.array) -> mx.array:
    is_set = (values.reshape(-1, BRICK_CELLS) > threshold).astype(mx.uint32)
    return (is_set << mx.arange(BRICK_CELLS, dtype=mx.uint32)).sum(axis=1).astype(mx.uint32)


@operation("occupancy_update", _pack_reference)
def _pack(values: mx.array, threshold: mx.array) -> list[mx.array]:
    words = values.shape[0] // BRICK_CELLS
    return _PACK(
        *(values, threshold),
        grid=(words, 1, 1),
        output_shapes=[(words,)],
        output_dtypes=[mx.uint32],
    )


def choose(bits: mx.array, draws: mx.array) -> mx.array:
    """Draw random occupied cells.

    If n bits are set, a draw selects the set bit with the index floor(draw n / 2^32).

    Args:
        bits: (words,) uint32, at most 2^26 words. Each bit belongs to a cell, beginning with the
            lowest bit.
        draws: (count,) uint32, random numbers that are uniform over all 2^32 values, such as words
            of random keys.

    Returns:
        Cell indices, int32 (count,). If no bit is set, all indices are 0.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _CHOOSE_TAKES.check(bits, draws)
    return _choose(bits, draws)


def _set_bits(words: mx.array) -> mx.array:
    """Return the number of set bits in each word, int32. Adjacent groups of bits are added
    pairwise."""
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    return (((words + (words >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24).astype(mx.int32)


def _choose_reference(bits: mx.array, draws: mx.array) -> mx.array:
    is_set = (bits[:, None] >> mx.arange(BRICK_CELLS, dtype=mx.uint32)) & 1
    is_set = is_set.reshape(-1).astype(mx.int32)
    ends, count = mx.cumsum(is_set), is_set.shape[0]
    # List the indices of the set bits without gaps. Each set bit is written at its rank among the
    # set bits, and other bits are written to an extra element.
    chosen = mx.zeros(count + 1, mx.int32)
    chosen[mx.where(is_set == 1, ends - 1, count)] = mx.arange(count, dtype=mx.int32)
    rank = (draws.astype(mx.uint64) * ends[-1].astype(mx.uint64)) >> 32
    return mx.where(ends[-1] > 0, chosen[rank.astype(mx.int32)], 0)


@operation("occupancy_update", _choose_reference)
def _choose(bits: mx.array, draws: mx.array) -> list[mx.array]:
    return _CHOOSE(
        *(bits, mx.cumsum(_set_bits(bits)), draws, mx.array([bits.shape[0]], mx.int32)),
        grid=(draws.shape[0], 1, 1),
        output_shapes=[draws.shape],
        output_dtypes=[mx.int32],
    )
