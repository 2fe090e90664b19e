"""Alias table that draws pixels of views of any size, all equally likely.

A draw chooses a view first: each of the n views has the share 1 / n, and a view with fewer pixels
than the mean hands part of its share to one with more. That is the alias method (Walker, 1977), as
Vose built its table in 1991: a draw costs one look into the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WHOLE = 2**24
"""Value of `kept` for a whole share. Float32 holds all integers up to it."""

COLUMNS = ("first", "height", "width", "kept", "other")


def pixel_places(sizes: Sequence[tuple[int, int]]) -> npt.NDArray[np.int32]:
    """A row of `COLUMNS` for each of the `sizes` (width, height): int32 (n, 5).

    `first` is the index of the view's first pixel among all pixels, row by row from the top. The
    view itself is drawn with `kept` / `WHOLE` of its share, the view `other` with the rest. `first`
    is wrong with 2^31 pixels or more.
    """
    counts = np.array([width * height for width, height in sizes], np.float64)
    first = np.cumsum([0, *counts[:-1]]) % 2**31
    share = counts / counts.mean()
    other = np.arange(len(counts))
    kept = np.ones(len(counts))
    small, large = list(np.flatnonzero(share < 1.0)), list(np.flatnonzero(share > 1.0))
    while small and large:
        view, giver = small.pop(), large[-1]
        kept[view], other[view] = share[view], giver
        share[giver] -= 1.0 - share[view]
        if share[giver] < 1.0:
            small.append(large.pop())
    widths, heights = np.array(sizes).T
    columns = [first, heights, widths, np.rint(kept * WHOLE), other]
    return np.stack(columns, axis=1).astype(np.int32)
