"""Random points in occupancy grid cells, and grid updates with density estimates.

The method is similar to that of Müller et al. 2022, appendix E.2.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel
from nerfmac.common import checks
from nerfmac.common.constants import BRICK_CELLS, NEVER_OCCUPIED
from nerfmac.geometry.cells import corners_of
from nerfmac.ops.march import MarchGeometry, cell_of
from nerfmac.ops.operation import operation
from nerfmac.ops.signature import Signature

_SPLAT_TAKES = Signature(
    positions=(mx.float32, "estimates", 3), estimates=(mx.float32, "estimates"), used=(mx.int32, 1)
)
_PACK_TAKES = Signature(values=(mx.float32, "count"), threshold=(mx.float32, 1))
_POINTS_TAKES = Signature(key=(mx.uint32, 2))
_POINTS_GIVES = Signature(positions=(mx.float32, "points", 3))
_REFRESH_TAKES = Signature(
    values=(mx.float32, "cells"),
    since_visible=(mx.int32, "cells"),
    peaks=(mx.float32, "cells"),
    is_visible=(mx.bool_, "cells"),
    updates=(mx.int32, 1),
)
_REFRESH_GIVES = Signature(
    new_values=(mx.float32, "cells"),
    new_since_visible=(mx.int32, "cells"),
    shown=(mx.float32, "cells"),
)
_SPLAT = Kernel(
    "occupancy_update",
    "occupancy_splat",
    inputs=(*_SPLAT_TAKES.names, "settings"),
    outputs=("peaks",),
    rows="estimates_shape[0]",
    accumulates=True,
)
_PACK = Kernel(
    "occupancy_update", "occupancy_pack", _PACK_TAKES.names, ("bits",), rows="values_shape[0]"
)
_POINTS = Kernel(
    "occupancy_update",
    "occupancy_points",
    inputs=(*_POINTS_TAKES.names, "settings"),
    outputs=_POINTS_GIVES.names,
    rows="settings[0]",
)
_REFRESH = Kernel(
    "occupancy_update",
    "occupancy_refresh",
    inputs=(*_REFRESH_TAKES.names, "factors", "settings"),
    outputs=_REFRESH_GIVES.names,
    rows="values_shape[0]",
)


class RefreshRule(NamedTuple):
    """Settings of `refresh`, which updates the estimates of all cells."""

    decay: float  # factor of the estimates
    step: float  # length of the shortest marching step in scene units
    patience: int  # maximum number of updates after which an invisible cell counts as empty
    is_warmup: bool  # whether training is in the warm-up phase, when ages do not increase


class Refreshed(NamedTuple):
    """Density estimates and visibility of all cells after an update."""

    values: mx.array  # (cells,) float32, optical thickness of the shortest marching step
    since_visible: mx.array  # (cells,) int32
    shown: mx.array  # (cells,) float32, `values`, or -1 for cells that are no longer visible


def splat(
    positions: mx.array, estimates: mx.array, used: mx.array, geometry: MarchGeometry
) -> mx.array:
    """Return the largest estimate in each cell of an occupancy grid, or 0 in cells without an
    estimate.

    Args:
        positions: (estimates, 3) float32, scene coordinates. Positions outside the grid are
            ignored.
        estimates: (estimates,) float32, not negative.
        used: (1,) int32, number of valid estimates. The other estimates are ignored.
        geometry: The scene cube and the grid.

    Returns:
        float32 array (geometry.cells,) without a gradient.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _SPLAT_TAKES.check(positions, estimates, used)
    return _splat(positions, mx.stop_gradient(estimates), used, geometry)


def _splat_reference(
    positions: mx.array, estimates: mx.array, used: mx.array, geometry: MarchGeometry
) -> mx.array:
    cell = cell_of(positions, geometry)
    is_valid = (mx.arange(cell.shape[0]) < used) & (cell >= 0)
    # Estimates that are not valid are written to an extra cell that is removed below.
    cell = mx.where(is_valid, cell, geometry.cells)
    return mx.zeros(geometry.cells + 1).at[cell].maximum(estimates)[:-1]


@operation("occupancy_update", _splat_reference)
def _splat(
    positions: mx.array, estimates: mx.array, used: mx.array, geometry: MarchGeometry
) -> mx.array:
    (peaks,) = _SPLAT(
        *(positions, estimates, used),
        mx.array([geometry.resolution, geometry.bounds.cascades], mx.int32),
        grid=(estimates.shape[0], 1, 1),
        output_shapes=[(geometry.cells,)],
        output_dtypes=[mx.uint32],
    )
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


def random_points(key: mx.array, count: int, geometry: MarchGeometry) -> mx.array:
    """Draw random points in random cells of an occupancy grid.

    The cells are stratified: the grid is divided into as many equal parts as there are points, and
    one cell is drawn from each part. The cells of the points are therefore sorted.

    Args:
        key: (2,) uint32, random key.
        count: Number of points, less than 2^31.
        geometry: The scene cube and the grid.

    Returns:
        Positions (count, 3) float32 in scene coordinates.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _POINTS_TAKES.check(key)
    return _random_points(key, count, geometry)


def _random_points_reference(key: mx.array, count: int, geometry: MarchGeometry) -> mx.array:
    # `mx.random.randint` converts a float32 to an integer, so most of the 2^32 values would never
    # occur. Random keys are used instead: a key consists of two words of 32 random bits.
    select, within = mx.random.split(key, count).reshape(2, count)
    # With float32, only 2^24 different cells could be drawn. These integers are exact. In units of
    # 1 / count of a cell, each stratum has the length of all cells, and each cell has the length of
    # `count` units.
    offset = (select.astype(mx.int64) * geometry.cells) >> 32
    cell = (mx.arange(count, dtype=mx.int64) * geometry.cells + offset) // max(count, 1)
    lowest, side = corners_of(cell.astype(mx.int32), geometry.resolution)
    lattice = mx.stack([within >> 21, (within >> 10) & 2047, within & 1023], axis=1)
    place = (lattice.astype(mx.float32) + 0.5) / mx.array([2048.0, 2048.0, 1024.0])
    return lowest + place * side[:, None]


@operation("occupancy_update", _random_points_reference)
def _random_points(key: mx.array, count: int, geometry: MarchGeometry) -> list[mx.array]:
    settings = mx.array([count, geometry.cells, geometry.resolution], mx.int32)
    return _POINTS(
        *(key, settings),
        grid=(count, 1, 1),
        **_POINTS_GIVES.outputs(points=count),
    )


def refresh(
    values: mx.array,
    since_visible: mx.array,
    peaks: mx.array,
    is_visible: mx.array,
    updates: mx.array,
    rule: RefreshRule,
) -> Refreshed:
    """Update the density estimates of all cells.

    Estimates decay by the factor `rule.decay`, and larger new estimates `peaks * rule.step` replace
    them. After the warm-up, a cell that has not been visible for several updates counts as empty.
    This number of updates is half of `updates`, clamped to [patience / 8, patience]. If the number
    were constant, short runs would sample cells that are no longer visible until the end of
    training.

    Args:
        values: (cells,) float32, optical thickness of the shortest marching step.
        since_visible: (cells,) int32, number of updates since the cell was visible, at most
            `rule.patience`, or NEVER_OCCUPIED for a cell that stays empty permanently.
        peaks: (cells,) float32, new density estimates per scene unit, or 0.
        is_visible: (cells,) bool, True for cells that are currently visible along training rays.
        updates: (1,) int32, number of updates after the warm-up, including this update.
        rule: Constants.

    Returns:
        New estimates, without a gradient.

    Raises:
        InputError: If a shape or type is wrong.
    """
    arrays = values, since_visible, peaks, is_visible, updates
    _REFRESH_TAKES.check(*arrays)
    return _refresh(*arrays, rule)


def _refresh_reference(
    values: mx.array,
    since_visible: mx.array,
    peaks: mx.array,
    is_visible: mx.array,
    updates: mx.array,
    rule: RefreshRule,
) -> Refreshed:
    patience = rule.patience
    values = mx.maximum(values * rule.decay, peaks * rule.step)
    since = mx.minimum(since_visible + int(not rule.is_warmup), patience)
    since = mx.where(is_visible, 0, since)
    since = mx.where(since_visible == NEVER_OCCUPIED, NEVER_OCCUPIED, since)
    limit = mx.clip(updates // 2, max(patience // 8, 1), patience)
    return Refreshed(values, since, mx.where(since < limit, values, -1.0))


@operation("occupancy_update", _refresh_reference)
def _refresh(
    values: mx.array,
    since_visible: mx.array,
    peaks: mx.array,
    is_visible: mx.array,
    updates: mx.array,
    rule: RefreshRule,
) -> Refreshed:
    return Refreshed(
        *_REFRESH(
            *(values, since_visible, peaks, mx.view(is_visible, mx.uint8), updates),
            mx.array([rule.decay, rule.step]),
            mx.array([rule.patience, int(not rule.is_warmup)], mx.int32),
            grid=(values.shape[0], 1, 1),
            **_REFRESH_GIVES.outputs(cells=values.shape[0]),
        )
    )
