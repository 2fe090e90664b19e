"""Where each view's pixels are in one list of all pixels, and how to choose among views by size.

Views may differ in size. A pixel is chosen by its view first: each of the n views gets the share
1 / n, and a view with fewer pixels than the mean hands part of its share to one with more. That is
the alias method (Walker, 1977), in the form of Vose, 1991: all pixels are as likely, and the cost
is one look into a table, for views of one size as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WHOLE = 2**24
"""A share that is kept whole: float32 holds all integers up to it."""

COLUMNS = ("first", "height", "width", "kept", "other")


def pixel_places(sizes: Sequence[tuple[int, int]]) -> npt.NDArray[np.int32]:
    """A row of `COLUMNS` for each of the `sizes` (width, height): int32 (n, 5).

    `first` is the number of the view's first pixel; rows follow each other from the top. Of the
    view's share `kept` of `WHOLE` is its own; the rest is that of the view `other`. With 2^31
    pixels or more `first` is not right.
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
