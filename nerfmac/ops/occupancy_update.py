"""Folding density estimates into the occupancy grid (Müller et al. 2022, appendix E.2)."""

from __future__ import annotations

import mlx.core as mx

from nerfmac import checks
from nerfmac.backend import Kernel, runs_kernel

_SPLAT = Kernel(
    "occupancy_update",
    "occupancy_splat",
    inputs=("cells", "estimates"),
    outputs=("peaks",),
    rows="cells_shape[0]",
    accumulates=True,
)
_PACK = Kernel(
    "occupancy_update",
    "occupancy_pack",
    inputs=("values", "threshold"),
    outputs=("bits",),
    rows="values_shape[0]",
)


def splat(cells: mx.array, estimates: mx.array, count: int) -> mx.array:
    """The largest of the estimates that fell into each cell; 0 where none did.

    Args:
        cells: (estimates,) int32, in [0, count).
        estimates: (estimates,) float32, not negative.
        count: how many cells there are.

    Returns:
        (count,) float32; not differentiable.
    """
    checks.shape("cells", cells, (None,))
    checks.shape("estimates", estimates, cells.shape)
    checks.dtype("cells", cells, mx.int32)
    checks.dtype("estimates", estimates, mx.float32)
    estimates = mx.stop_gradient(estimates)
    if not runs_kernel("occupancy_update"):
        return mx.zeros(count).at[cells].maximum(estimates)
    (peaks,) = _SPLAT(
        cells,
        estimates,
        grid=(cells.shape[0], 1, 1),
        output_shapes=[(count,)],
        output_dtypes=[mx.uint32],
    )
    return mx.view(peaks, mx.float32)


def pack_bits(values: mx.array, threshold: mx.array) -> mx.array:
    """One bit a value, set where it exceeds the threshold: (values / 32,) uint32, low bit first.

    `values` is (count,) float32 with a multiple of 32 elements, `threshold` (1,) float32.
    """
    checks.shape("threshold", threshold, (1,))
    checks.dtype("values", values, mx.float32)
    checks.dtype("threshold", threshold, mx.float32)
    if values.ndim != 1 or values.shape[0] % 32:
        raise checks.InputError(f"values has shape {values.shape}; expected a multiple of 32")
    if not runs_kernel("occupancy_update"):
        is_set = (values.reshape(-1, 32) > threshold).astype(mx.uint32)
        return (is_set << mx.arange(32, dtype=mx.uint32)).sum(axis=1).astype(mx.uint32)
    words = values.shape[0] // 32
    (bits,) = _PACK(
        values,
        threshold,
        grid=(words, 1, 1),
        output_shapes=[(words,)],
        output_dtypes=[mx.uint32],
    )
    return bits
