"""Alias table for drawing pixels uniformly from images of different sizes.

Drawing a pixel takes two steps: select a view with a probability proportional to its number of
pixels, then select one of its pixels uniformly. The alias method (Walker 1977) selects the view
with a single table lookup. Vose's algorithm (1991) constructs the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common.constants import FRACTION_UNITS

COLUMNS = ("first", "height", "width", "kept", "other")


def pixel_places(sizes: Sequence[tuple[int, int]]) -> npt.NDArray[np.int32]:
    """Return the alias table for drawing pixels from n views.

    Args:
        sizes: Width and height of each view in pixels.

    Returns:
        int32 array (n, 5) with one row per view and these columns:

        - `first`: index of the view's first pixel in the concatenated pixels of all views, in
          row-major order. If there are 2^31 pixels or more, the index overflows.
        - `height` and `width`: size of the view in pixels.
        - `kept` and `other`: entry of the alias table. A draw first selects a row uniformly. It
          then selects the row's view with probability `kept` / `FRACTION_UNITS`, and otherwise the
          view with the index `other`.
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
