"""Camera models that map directions to pixels and pixels to directions.

Image positions are in pixels, with x to the right and y down. The center of the top left pixel is
(0.5, 0.5). Except for fisheye lenses, OpenCV's radial-tangential model maps the direction (x, y,
1), where y is down, to a pixel:

    radial = 1 + k1 r^2 + k2 r^4 + k3 r^6 + k4 r^8,   r^2 = x^2 + y^2
    x' = x radial + 2 p1 x y + p2 (r^2 + 2 x^2),      column = fl_x x' + cx
    y' = y radial + 2 p2 x y + p1 (r^2 + 2 y^2),      row    = fl_y y' + cy

Fisheye lenses use the Kannala-Brandt model, as in OpenCV's fisheye module and COLMAP. This model
maps a direction at the angle t from the optical axis to a point at the distance

    t' = t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8)

from the principal point, in focal lengths. Fisheye directions are unit vectors with three
components, because directions (x, y, 1) cannot represent fields of view of 180 degrees or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import mlx.core as mx

from nerfmac.common import LONGEST_STEP, InputError, checks, refuse_forked

NEWTON_STEPS = 5
"""Number of Newton steps. For float32 precision, most lenses require 3 steps, and strongly
distorted lenses require 4."""


@dataclass(frozen=True)
class Lens:
    """Camera intrinsics: focal lengths, principal point, and distortion of a `width` x `height`
    image.

    Lengths are in pixels, and the distortion coefficients are dimensionless. A fisheye lens has no
    p1 or p2.

    Raises `InputError` if a size is not a positive integer, a focal length is not positive, a
    number is not finite, or a fisheye lens has p1 or p2.
    """

    width: int
    height: int
    fl_x: float
    fl_y: float
    cx: float
    cy: float
    k1: float = 0.0
    k2: float = 0.0
    k3: float = 0.0
    k4: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    is_fisheye: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        checks.number("width", self.width, low=1, whole=True)
        checks.number("height", self.height, low=1, whole=True)
        for name in ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "k3", "k4", "p1", "p2"):
            checks.number(name, getattr(self, name))
        for name in ("fl_x", "fl_y"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} is {getattr(self, name):g}; expected more than 0")
        if self.is_fisheye and (self.p1 or self.p2):
            raise InputError(f"a fisheye lens has p1 {self.p1:g} and p2 {self.p2:g}; expected 0")

    @classmethod
    def from_fov(cls, fov_x: float, width: int, height: int) -> Self:
        """Return an undistorted lens with square pixels.

        Args:
            fov_x: Horizontal field of view in radians.
            width: Image width in pixels.
            height: Image height in pixels.

        Returns:
            Lens with the principal point in the center of the image.

        Raises:
            InputError: If the field of view is not between 0 and pi.
        """
        focal = focal_length("fov_x", fov_x, width)
        return cls(width, height, focal, focal, width / 2, height / 2)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the image in pixels."""
        return self.width, self.height

    @property
    def distortion(self) -> tuple[float, float, float, float, float, float]:
        """Distortion coefficients k1, k2, k3, k4, p1, and p2."""
        return self.k1, self.k2, self.k3, self.k4, self.p1, self.p2

    @property
    def tangents(self) -> tuple[float, float]:
        """Tangents of half the horizontal and half the vertical field of view, ignoring
        distortion."""
        return 0.5 * self.width / self.fl_x, 0.5 * self.height / self.fl_y

    @property
    def is_distorted(self) -> bool:
        """Whether the lens differs from a pinhole, which maps the direction (x, y, 1) to the pixel
        (fl_x x + cx, fl_y y + cy)."""
        return self.is_fisheye or any(self.distortion)

    def scaled(self, width: int, height: int) -> Lens:
        """Return the lens for the same image resampled to another size.

        Args:
            width: New image width in pixels.
            height: New image height in pixels.

        Returns:
            Lens with the same field of view, for an image of the new size.
        """
        x, y = width / self.width, height / self.height
        lens = replace(self, width=width, height=height, cx=self.cx * x, cy=self.cy * y)
        return replace(lens, fl_x=self.fl_x * x, fl_y=self.fl_y * y)

    def reduced(self, factor: int) -> Lens:
        """Return the lens for an image that is reduced by averaging blocks of pixels.

        Args:
            factor: Width and height of a block in pixels. Incomplete blocks at the right and bottom
                edges are dropped.

        Returns:
            Lens for the smaller image, with lengths in pixels of the smaller image.
        """
        lens = replace(self, width=self.width // factor, height=self.height // factor)
        lens = replace(lens, fl_x=self.fl_x / factor, fl_y=self.fl_y / factor)
        return replace(lens, cx=self.cx / factor, cy=self.cy / factor)

    def within(self, width: int, height: int) -> Lens:
        """Return a lens for another image size, with the same image center and at least the same
        field of view.

        Args:
            width: New image width in pixels.
            height: New image height in pixels.

        Returns:
            Lens with the same pixel aspect ratio. If the image's aspect ratio changes, the field of
            view grows either horizontally or vertically.
        """
        scale = min(width / self.width, height / self.height)
        lens = replace(self, width=width, height=height, fl_x=self.fl_x * scale)
        lens = replace(lens, fl_y=self.fl_y * scale)
        cx = 0.5 * width + scale * (self.cx - 0.5 * self.width)
        cy = 0.5 * height + scale * (self.cy - 0.5 * self.height)
        return replace(lens, cx=cx, cy=cy)

    def rows(self, first: int, count: int) -> Lens:
        """Return the lens for an image cropped to a range of rows.

        Args:
            first: Index of the first row.
            count: Number of rows.

        Returns:
            Lens for the rows `first` to `first + count - 1`.
        """
        return replace(self, height=count, cy=self.cy - first)


def focal_length(name: str, angle: float, size: int) -> float:
    """Return the focal length in pixels for which an image side of `size` pixels covers `angle`
    radians. `name` is the name of the angle in error messages."""
    checks.number(name, angle)
    if not 0 < angle < math.pi:
        raise InputError(f"{name} is {angle:g}; expected radians between 0 and pi")
    return 0.5 * size / math.tan(0.5 * angle)


def distort(point: mx.array, distortion: mx.array) -> mx.array:
    """Return points on the image plane with lens distortion applied, shape (r, 2), in focal lengths
    relative to the principal point. The formulas in the module docstring call them x' and y'.

    Args:
        point: Undistorted points (r, 2): the components x and y of directions (x, y, 1).
        distortion: Coefficients k1, k2, k3, k4, p1, and p2, float32 (r, 6) or (1, 6).
    """
    refuse_forked()
    x, y = _columns(point)
    return mx.concatenate(distort_with_slopes(x, y, _columns(distortion))[:2], axis=-1)


def undistort(point: mx.array, distortion: mx.array) -> mx.array:
    """Remove lens distortion from points on the image plane with a fixed number of Newton steps, so
    that `mx.compile` can compile the function.

    Args:
        point: Distorted points (r, 2) relative to the principal point, in focal lengths.
        distortion: Coefficients k1, k2, k3, k4, p1, and p2, float32 (r, 6) or (1, 6).

    Returns:
        Undistorted points (r, 2). If distortion is strong, the model maps no direction to points
        beyond a certain radius, the fold. Results for points beyond the fold are arbitrary but
        finite.
    """
    wanted_x, wanted_y = x, y = _columns(point)
    coefficients = _columns(distortion)
    for _ in range(NEWTON_STEPS):
        got_x, got_y, xx, xy, yy = distort_with_slopes(x, y, coefficients)
        miss_x, miss_y = got_x - wanted_x, got_y - wanted_y
        determinant = xx * yy - xy * xy
        # At the fold, the Jacobian is singular. The step is limited so that a pixel at the fold
        # does not become NaN. A single NaN would invalidate a training run.
        inverse = 1.0 / mx.where(mx.abs(determinant) < 1e-6, 1e-6, determinant)
        step_x = (yy * miss_x - xy * miss_y) * inverse
        step_y = (xx * miss_y - xy * miss_x) * inverse
        x = x - mx.clip(step_x, -LONGEST_STEP, LONGEST_STEP)
        y = y - mx.clip(step_y, -LONGEST_STEP, LONGEST_STEP)
    return mx.concatenate([x, y], axis=-1)


def fisheye_directions(point: mx.array, coefficients: mx.array) -> mx.array:
    """Return the unit directions (r, 3) that fisheye lenses map to points (r, 2).

    Directions have x right, y down, and z forward. `point` contains distorted points relative to
    the principal point, in focal lengths. `coefficients` (r, 4) or (1, 4) contains k1 to k4. The
    model is inverted with a fixed number of Newton steps. If the model maps no direction to a
    point, the result for this point is arbitrary but finite.
    """
    away = mx.sqrt(mx.sum(mx.square(point), axis=-1, keepdims=True))
    k1, k2, k3, k4 = mx.split(coefficients, 4, axis=-1)
    angle = away
    for _ in range(NEWTON_STEPS):
        square = angle * angle
        radial = 1.0 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
        slope = k1 + square * (2.0 * k2 + square * (3.0 * k3 + square * 4.0 * k4))
        derivative = radial + 2.0 * square * slope
        step = (angle * radial - away) / mx.where(mx.abs(derivative) < 1e-6, 1e-6, derivative)
        angle = angle - mx.clip(step, -LONGEST_STEP, LONGEST_STEP)
    # sin(angle) / away tends to 1 near the optical axis.
    side = mx.where(away < 1e-6, 1.0, mx.sin(angle) / mx.maximum(away, 1e-6))
    return mx.concatenate([side * point, mx.cos(angle)], axis=-1)


def distort_with_slopes(
    x: mx.array, y: mx.array, coefficients: Sequence[mx.array]
) -> list[mx.array]:
    """Apply lens distortion to points, and compute its Jacobian matrix.

    Args:
        x: Horizontal component (r, 1) of the undistorted points.
        y: Vertical component (r, 1) of the undistorted points.
        coefficients: k1, k2, k3, k4, p1, and p2, each (r, 1) or (1, 1).

    Returns:
        Five arrays (r, 1): x', y', and the derivatives dx'/dx, dx'/dy, and dy'/dy. The Jacobian
        matrix is symmetric, so dy'/dx equals dx'/dy.
    """
    k1, k2, k3, k4, p1, p2 = coefficients
    square = x * x + y * y
    radial = 1.0 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
    slope = k1 + square * (2.0 * k2 + square * (3.0 * k3 + square * 4.0 * k4))  # d radial / d r^2
    product = x * y
    return [
        x * radial + 2.0 * p1 * product + p2 * (square + 2.0 * x * x),
        y * radial + 2.0 * p2 * product + p1 * (square + 2.0 * y * y),
        radial + 2.0 * x * x * slope + 2.0 * p1 * y + 6.0 * p2 * x,
        2.0 * product * slope + 2.0 * p1 * x + 2.0 * p2 * y,
        radial + 2.0 * y * y * slope + 2.0 * p2 * x + 6.0 * p1 * y,
    ]


def _columns(values: mx.array) -> list[mx.array]:
    """Split an array (r, c) into its columns (r, 1)."""
    return list(mx.split(values, values.shape[-1], axis=-1))
