"""Alias table that draws all pixels of views of any size with equal probability.

A draw chooses a view first: each of the n views has the share 1 / n, and a view with fewer pixels
than the mean gives part of its share to a view with more. This is the alias method (Walker, 1977),
with the table construction of Vose (1991): a draw needs one table lookup.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common.constants import FRACTION_UNITS

COLUMNS = ("first", "height", "width", "kept", "other")


def pixel_places(sizes: Sequence[tuple[int, int]]) -> npt.NDArray[np.int32]:
    """Return the table int32 (n, 5), with a row of `COLUMNS` for each image size (width, height).

    `first` is the index of the first pixel of the view among all pixels, in row-major order. It
    overflows if there are 2^31 pixels or more. The columns `kept` and `other` are an alias table:
    within the share of a view, the view itself is drawn with the probability `kept` /
    `FRACTION_UNITS`, otherwise the view `other`.
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
    columns = [first, heights, widths, np.rint(kept * FRACTION_UNITS), other]
    return np.stack(columns, axis=1).astype(np.int32)
