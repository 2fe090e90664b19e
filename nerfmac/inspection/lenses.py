"""Which lenses are hardly those of cameras: stretched pixels, or distortion out of all measure."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from nerfmac.geometry.lenses import Lens, distort
from nerfmac.inspection.findings import summed_up

SQUARE = 1.1
"""Quotient of the sides of a pixel from which on a lens is odd; cameras have square pixels."""
BENT = 0.5
"""Shift of a picture's corner by distortion, in its distances from the middle, from which on a lens
is odd; wide-angle lenses of action cameras reach 0.2."""


def lens_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """A line for each odd lens, with the first of its pictures; `names` are the pictures'."""
    return bent_findings(names, lenses) + stretched_findings(names, lenses)


def bent_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """A line for each lens whose distortion moves a corner of the picture too far."""
    lines = [
        f"the lens of {name} moves the corners of its picture by {shift:.2g} times their distance "
        f"from the middle (k1 {lens.k1:.3g}, k2 {lens.k2:.3g}, k3 {lens.k3:.3g}, k4 {lens.k4:.3g}, "
        f"p1 {lens.p1:.3g}, p2 {lens.p2:.3g}): these are hardly the coefficients of a camera"
        for name, lens in _once(names, lenses)
        if (shift := _corner_shift(lens)) > BENT
    ]
    return summed_up(lines, "have lenses whose distortion is hardly a camera's")


def stretched_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """A line for each lens whose pixels are far from square."""
    lines = [
        f"the lens of {name} has pixels that are not square: fl_y / fl_x is "
        f"{lens.fl_y / lens.fl_x:.3g} ({lens.fl_y:.5g} and {lens.fl_x:.5g}); if pictures come out "
        "stretched, one of them is wrong"
        for name, lens in _once(names, lenses)
        if not 1 / SQUARE < lens.fl_y / lens.fl_x < SQUARE
    ]
    return summed_up(lines, "have lenses whose pixels are not square")


def _once(names: Sequence[str], lenses: Sequence[Lens]) -> list[tuple[str, Lens]]:
    """Each lens with the first of its pictures."""
    first = {lens: name for name, lens in zip(reversed(names), reversed(lenses), strict=True)}
    return sorted((name, lens) for lens, name in first.items())


def _corner_shift(lens: Lens) -> float:
    """The largest shift of a picture's corner, in its distances from the principal point."""
    x = (np.array([0, lens.width, lens.width, 0]) - lens.cx) / lens.fl_x
    y = (np.array([0, 0, lens.height, lens.height]) - lens.cy) / lens.fl_y
    corners = np.stack([x, y], axis=1)
    away = np.hypot(x, y)
    if lens.is_fisheye:
        powers = away[:, None] ** (2, 4, 6, 8)
        return float(np.abs(powers @ (lens.k1, lens.k2, lens.k3, lens.k4)).max())
    moved = distort(mx.array(corners, mx.float32), mx.array([lens.distortion], mx.float32))
    shift = np.linalg.norm(np.array(moved) - corners, axis=1)
    return float((shift / np.maximum(away, 1e-6)).max())
