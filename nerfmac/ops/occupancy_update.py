"""Random points in occupancy grid cells, and grid updates with density estimates.

Müller et al. 2022, appendix E.2, describe the method.
"""

from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common import BRICK_CELLS, EMPTY_IN_WARMUP, NEVER_OCCUPIED, checks
from nerfmac.geometry import corners_of
from nerfmac.ops.operation import operation

_SPLAT_TAKES = Signature(cells=(mx.int32, "estimates"), estimates=(mx.float32, "estimates"))
_SPLAT_GIVES = Signature(peaks=(mx.uint32, "count"))
_PACK_TAKES = Signature(values=(mx.float32, "count"), threshold=(mx.float32, 1))
_BITS = Signature(bits=(mx.uint32, "words"))
_COUNTS = Signature(counts=(mx.int32, "words"))
_POINTS_TAKES = Signature(**_BITS, draws=(mx.uint32, "points", 2))
_POINTS_GIVES = Signature(cells=(mx.int32, "points"), positions=(mx.float32, "points", 3))
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
_SPLAT = Kernel("occupancy_update", "occupancy_splat", _SPLAT_TAKES, _SPLAT_GIVES, accumulates=True)
_PACK = Kernel("occupancy_update", "occupancy_pack", _PACK_TAKES, _BITS)
_COUNT = Kernel("occupancy_update", "occupancy_count", _BITS, _COUNTS)
_POINTS = Kernel(
    "occupancy_update",
    "occupancy_points",
    Signature(
        bits=_POINTS_TAKES["bits"],
        ends=(mx.int32, "words"),
        draws=_POINTS_TAKES["draws"],
        settings=(mx.int32, 3),
    ),
    _POINTS_GIVES,
    rows="draws_shape[0]",
)
_REFRESH = Kernel(
    "occupancy_update",
    "occupancy_refresh",
    Signature(
        **{**_REFRESH_TAKES, "is_visible": (mx.uint8, "cells")},
        factors=(mx.float32, 2),
        settings=(mx.int32, 2),
    ),
    _REFRESH_GIVES,
)


class CellPoints(NamedTuple):
    """Random points in occupancy grid cells."""

    cell: mx.array  # (points,) int32, index of the cell that contains the point
    position: mx.array  # (points, 3) float32, scene coordinates


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
    (peaks,) = _SPLAT(cells, estimates, grid=(cells.shape[0], 1, 1), count=count)
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
    return _PACK(values, threshold, grid=(words, 1, 1), words=words)


def draw_points(bits: mx.array, draws: mx.array, evenly: int, resolution: int) -> CellPoints:
    """Draw random points in cells of an occupancy grid.

    The first `evenly` points are in random cells of the whole grid. The other points are in random
    occupied cells. The cells of each group are stratified: the cells to choose from are divided
    into as many equal parts as the group has points, and one cell is drawn from each part. The
    cells in each group are therefore sorted.

    Args:
        bits: (words,) uint32, at most 2^26 words. Each bit belongs to a cell, beginning with the
            lowest bit, and is 1 if the cell is occupied.
        draws: (points, 2) uint32, random numbers that are uniform over all 2^32 values, such as
            random keys.
        evenly: Number of points in cells of the whole grid.
        resolution: Number of cells along each axis of a cascade.

    Returns:
        Cells and positions of the points. If no cell is occupied, the points of the second group
        are in cell 0.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _POINTS_TAKES.check(bits, draws)
    return _draw_points(bits, draws, evenly, resolution)


def _draw_points_reference(
    bits: mx.array, draws: mx.array, evenly: int, resolution: int
) -> CellPoints:
    is_set = (bits[:, None] >> mx.arange(BRICK_CELLS, dtype=mx.uint32)) & 1
    is_set = is_set.reshape(-1).astype(mx.int32)
    ends, total = mx.cumsum(is_set), is_set.shape[0]
    # List the indices of the set bits without gaps. Each set bit is written at its rank among the
    # set bits, and other bits are written to an extra element.
    occupied = mx.zeros(total + 1, mx.int32)
    occupied[mx.where(is_set == 1, ends - 1, total)] = mx.arange(total, dtype=mx.int32)
    anywhere = _in_strata(draws[:evenly, 0], mx.array(total))
    rank = _in_strata(draws[evenly:, 0], ends[-1])
    cell = mx.concatenate([anywhere, mx.where(ends[-1] > 0, occupied[rank], 0)])
    lowest, side = corners_of(cell, resolution)
    within = draws[:, 1]
    lattice = mx.stack([within >> 21, (within >> 10) & 2047, within & 1023], axis=1)
    place = (lattice.astype(mx.float32) + 0.5) / mx.array([2048.0, 2048.0, 1024.0])
    return CellPoints(cell, lowest + place * side[:, None])


def _in_strata(draws: mx.array, total: mx.array) -> mx.array:
    """Return a random index in [0, total) from each of `len(draws)` equal strata, int32.

    The computation uses integers and is exact for up to 2^31 indices. With float32, only 2^24
    different indices could be drawn.
    """
    strata, total = draws.shape[0], total.astype(mx.int64)
    # In units of 1 / strata of an index, a stratum has the length `total`, and an index has the
    # length `strata`.
    within = (draws.astype(mx.int64) * total) >> 32
    return ((mx.arange(strata, dtype=mx.int64) * total + within) // max(strata, 1)).astype(mx.int32)


@operation("occupancy_update", _draw_points_reference)
def _draw_points(bits: mx.array, draws: mx.array, evenly: int, resolution: int) -> CellPoints:
    words = bits.shape[0]
    (counts,) = _COUNT(bits, grid=(words, 1, 1))
    settings = mx.array([evenly, resolution, words], mx.int32)
    return CellPoints(
        *_POINTS(bits, mx.cumsum(counts), draws, settings, grid=(draws.shape[0], 1, 1))
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
            `rule.patience`, or NEVER_OCCUPIED for a cell that stays empty permanently, or
            EMPTY_IN_WARMUP for a cell that stays empty during the warm-up.
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
    stays = since_visible == NEVER_OCCUPIED
    if rule.is_warmup:
        stays = stays | (since_visible == EMPTY_IN_WARMUP)
    since = mx.where(stays, since_visible, since)
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
        )
    )
