"""The still life. Each object is a signed distance field with its paint.

On a wooden board are a glazed teapot, a vase with three flower stalks, a checkered box, a brass
ring, a pear, a striped ball, a pencil, the letter n, and a wire spiral. The objects are glossy,
matte, textured, or thin, and no object has symmetric sides. ``scripts/make_scene.py`` renders
``THINGS`` into images.

In object coordinates, z is up and the foot of the object is at z = 0. A shape is a function of
points (3, n) in object coordinates. The function returns the distances (n,) to the surface
(negative inside), and a function that returns the paint (4, n) of these points: linear red, green,
blue, and gloss, all in [0, 1].
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]  # float32
Look = tuple[Array, Callable[[], Array]]  # distance, and paint on demand
Shape = Callable[[Array], Look]

BOARD_TOP = -0.48  # world height of the board's upper side
THINGS: list[dict[str, Any]] = []


def stands(
    size: Sequence[float], at: Sequence[float], yaw: float = 0, metal: float = 0, step: float = 0.9
) -> Callable[[Shape], Shape]:
    """Add a shape to the scene, with its position and material.

    `size` is half the width, half the depth, and the height of the bounding box. `at` and `yaw`
    (degrees) place the shape on the board. `metal` is the fraction of the color that tints
    reflections. `step` is the fraction of the estimated distance that is a safe step in sphere
    tracing.
    """

    def add(shape: Shape) -> Shape:
        place = (at[0], at[1], BOARD_TOP + sum(at[2:]))
        row = {"shape": shape, "size": size, "place": place, "yaw": yaw}
        THINGS.append(row | {"metal": metal, "step": step})
        return shape

    return add


def column(values: Sequence[float] | Array) -> Array:
    """Convert a color, size, or position to an array (k, 1). An array (k, n) is returned
    unchanged."""
    return np.asarray(values, np.float32).reshape(len(values), -1)


def mix(first: Sequence[float] | Array, second: Sequence[float] | Array, fraction: Array) -> Array:
    """Interpolate colors linearly from `first` (fraction 0) to `second` (fraction 1)."""
    return column(first) + (column(second) - column(first)) * fraction


def ease(low: float, high: float, x: Array) -> Array:
    """Return a smooth step from 0 at `low` to 1 at `high`."""
    u = np.clip((x - low) / (high - low), 0.0, 1.0)
    return u * u * (3.0 - 2.0 * u)


def norm(*parts: Array) -> Array:
    """Return the length of the vector with these components."""
    square = parts[0] * parts[0]
    for part in parts[1:]:
        square = square + part * part
    return np.sqrt(square)


def ellipsoid(p: Array, center: Sequence[float], radii: Sequence[float]) -> Array:
    """Return the distance to an ellipsoid, to first order. For a sphere, the distance is exact."""
    q = (p - column(center)) / column(radii)
    k = norm(*q)
    return k * (k - 1.0) / np.maximum(norm(*(q / column(radii))), 1e-6)


def block(p: Array, half: Sequence[float], edge: float) -> Array:
    """Return the distance to a box with its foot at z = 0 and with edges rounded to the radius
    `edge`."""
    q = np.abs(p - column([0, 0, half[2]])) - column(half) + edge
    return norm(*np.maximum(q, 0.0)) + np.minimum(q.max(axis=0), 0.0) - edge


def rod(p: Array, start: Sequence[float], end: Sequence[float], wide: float, thin: float) -> Array:
    """Return the distance to a round rod that tapers from radius `wide` to radius `thin`."""
    axis, q = column(end) - column(start), p - column(start)
    u = np.clip((axis * q).sum(axis=0) / (axis * axis).sum(), 0.0, 1.0)
    return norm(*(q - axis * u)) - wide - (thin - wide) * u


def join(a: Array, b: Array, width: float) -> Array:
    """Return the distance to the union of two shapes, with a fillet of about `width`."""
    h = np.maximum(width - np.abs(a - b), 0.0)
    return np.minimum(a, b) - h * h * (0.25 / width)


@stands((1.0, 0.76, 0.1), at=(0, 0, -0.1), yaw=11, step=0.8)
def board(p: Array) -> Look:
    """A board with a wavy edge, a sawn-off corner and a hole, with the grain of a trunk."""
    wave = (0.035 * np.sin(3.1 * p[0] + 0.8) + 0.018 * np.sin(7.3 * p[0])) * (p[1] > 0)
    slab = block(np.stack([p[0], p[1] + wave, p[2]]), (1, 0.7, 0.05), 0.03)
    hole = 0.075 - norm(p[0] + 0.84, p[1] - 0.42)

    def paint() -> Array:
        ring = norm(p[1] + 0.25 + 0.07 * np.sin(1.7 * p[0] + 1), 2.2 * p[2] + 0.3 + 0.12 * p[0])
        grain = 0.4 + 0.4 * np.sin(46 * ring + 1.5 * np.sin(2.3 * p[0] + 9 * ring))
        plank = 0.82 + 0.18 * np.sign(np.sin(4.4 * p[1] + 1.0))
        return plank * mix((0.40, 0.19, 0.08, 0.15), (0.20, 0.08, 0.03, 0.15), grain)

    return np.maximum(np.maximum(slab, 0.8 * p[0] - 0.6 * p[1] - 1.0), hole), paint


@stands((0.57, 0.34, 0.64), at=(-0.3, 0.2), yaw=207)
def teapot(p: Array) -> Look:
    """A pot with lid, spout and handle, its teal glaze run down over clay in uneven drips."""
    pot = np.maximum(ellipsoid(p, (0, 0, 0.25), (0.33, 0.33, 0.27)), -p[2])
    lid = ellipsoid(p, (0, 0, 0.49), (0.17, 0.17, 0.06))
    lid = join(lid, ellipsoid(p, (0, 0, 0.585), (0.042, 0.042, 0.042)), 0.03)
    rim = norm(norm(p[0], p[1]) - 0.185, p[2] - 0.475) - 0.02
    spout = rod(p, (0.24, 0, 0.17), (0.43, 0, 0.31), 0.085, 0.05)
    spout = join(spout, rod(p, (0.43, 0, 0.31), (0.52, 0.01, 0.47), 0.05, 0.032), 0.06)
    spout = np.maximum(spout, -rod(p, (0.49, 0, 0.42), (0.55, 0.01, 0.53), 0.02, 0.024))
    handle = norm(norm(p[0] + 0.33, p[2] - 0.29) - 0.155, 1.3 * p[1]) - 0.034

    def paint() -> Array:
        angle = np.arctan2(p[1], p[0])
        drip = 0.05 * np.sin(5 * angle + 0.6) + 0.035 * np.sin(9 * angle + 2 * np.sin(angle))
        above = p[2] - 0.2 - drip
        glaze = mix((0.10, 0.42, 0.40, 1), (0.012, 0.185, 0.215, 1), ease(0.0, 0.08, above))
        return mix((0.72, 0.56, 0.41, 0.05), glaze, ease(-0.008, 0.008, above))

    return np.minimum(np.minimum(join(pot, join(spout, handle, 0.01), 0.05), rim), lid), paint


@stands((0.16, 0.16, 0.45), at=(0.5, 0.36), yaw=30)
def vase(p: Array) -> Look:
    """A milk-white bottle with a narrow neck and blue bands that wind a little."""
    body = np.maximum(ellipsoid(p, (0, 0, 0.13), (0.15, 0.13, 0.17)), -p[2])
    body = join(body, rod(p, (0, 0, 0.2), (0, 0, 0.4), 0.042, 0.042), 0.09)
    height = p[2] + 0.25 * p[0] * p[2]

    def paint() -> Array:
        band = np.maximum(
            ease(0.024, 0.018, abs(height - 0.2)), ease(0.010, 0.006, abs(height - 0.25))
        )
        return mix((0.74, 0.70, 0.64, 0.7), (0.03, 0.08, 0.36, 0.7), band)

    return body, paint


def stalk(x: float, y: float, top: float, head: float, hue: Sequence[float]) -> None:
    """Add a bent stalk to the vase, with a bloom of radius `head` at its end (x, y, top)."""

    @stands((abs(x) + 0.1, abs(y) + 0.1, top + 1.1 * head), at=(0.5, 0.36), step=0.75)
    def shape(p: Array) -> Look:
        u = np.clip(p[2] / top, 0.0, 1.0) ** 2
        stem = norm(p[0] - x * u, p[1] - y * u * (0.4 + 0.6 * u)) - 0.011
        stem = np.maximum(stem, abs(p[2] - 0.5 * top) - 0.5 * top)
        leaf = ellipsoid(p, (0.55 * x, 0.3 * y, 0.66 * top), (0.07, 0.014, 0.035))
        q = (p - column((x, y, top))) / head
        knobs = np.sin(9 * q[0]) * np.sin(9 * q[1] + 1) * np.sin(9 * q[2])

        def paint() -> Array:
            bloom = mix(hue, column(hue) * column((0.9, 0.62, 0.4, 1)), 0.5 + 0.5 * knobs)
            return mix((0.10, 0.25, 0.05, 0.1), bloom, norm(*q) < 1.12)

        return np.minimum(np.minimum(stem, leaf), head * (norm(*q) - 1 + 0.05 * knobs)), paint


stalk(0.2, 0.1, 1.26, 0.085, (0.86, 0.52, 0.015, 0.1))
stalk(-0.16, 0.16, 1.08, 0.07, (0.86, 0.45, 0.02, 0.1))
stalk(0.05, -0.2, 0.9, 0.058, (0.80, 0.26, 0.03, 0.1))


@stands((0.17, 0.14, 0.32), at=(0.42, -0.18), yaw=27)
def cube(p: Array) -> Look:
    """A matte box: ink and cream squares on the sides, stripes of another pitch on top."""
    checks = np.sin(25 * p[0] + 0.4) * np.sin(25 * p[1] + 0.9) * np.sin(25 * p[2] - 0.4)
    dark = ease(-0.12, 0.12, np.where(p[2] > 0.315, np.sin(30 * p[0] + 12 * p[1]), checks))
    ink = (0.035, 0.055, 0.16, 0)
    return block(p, (0.17, 0.14, 0.16), 0.012), lambda: mix((0.8, 0.71, 0.55, 0), ink, dark)


@stands((0.21, 0.14, 0.42), at=(0.16, -0.34), yaw=27, metal=0.8)
def ring(p: Array) -> Look:
    """A brass ring, thicker on one side, that leans on the box."""
    tube = norm(norm(p[0], p[2] - 0.2) - 0.17, p[1] - 0.33 * (p[2] - 0.2)) - 0.026 - 0.04 * p[0]
    return 0.93 * tube, lambda: column((0.80, 0.42, 0.07, 1))


@stands((0.17, 0.17, 0.52), at=(-0.52, -0.3), yaw=60)
def pear(p: Array) -> Look:
    """A pear that leans: yellow-green with a red cheek on one side, and a thin brown stem."""
    body = ellipsoid(p, (0.03, 0.01, 0.32), (0.072, 0.072, 0.072))
    body = join(ellipsoid(p, (0, 0, 0.15), (0.155, 0.155, 0.155)), body, 0.2)
    cheek = 0.7 * p[0] - 0.7 * p[1] + 0.2 * p[2] + 0.015 * np.sin(30 * p[2])

    def paint() -> Array:
        skin = mix((0.62, 0.56, 0.07, 0.3), (0.60, 0.10, 0.045, 0.3), ease(-0.08, 0.17, cheek))
        return mix(skin, (0.13, 0.07, 0.03, 0.1), ease(0.402, 0.412, p[2]))

    return join(body, rod(p, (0.03, 0.01, 0.37), (0.085, 0.03, 0.5), 0.009, 0.012), 0.02), paint


@stands((0.1, 0.1, 0.2), at=(-0.2, -0.33), yaw=20)
def marble(p: Array) -> Look:
    """A red ball with cream swirls."""
    swirl = np.sin(17 * p[0] + 9 * p[2] + 1.6 * np.sin(14 * p[1] + 8 * p[2]))
    red, cream = (0.52, 0.025, 0.04, 1), (0.80, 0.62, 0.42, 1)
    return ellipsoid(p, (0, 0, 0.1), (0.1, 0.1, 0.1)), lambda: mix(
        red, cream, ease(0.35, 0.6, swirl)
    )


@stands((0.35, 0.03, 0.06), at=(-0.12, -0.55), yaw=14)
def pencil(p: Array) -> Look:
    """An orange pencil with a pink rubber at one end and bare wood and lead at the other."""
    body = np.maximum(rod(p, (-1, 0, 0.027), (1, 0, 0.027), 0.027, 0.027), abs(p[0]) - 0.25)
    body = np.minimum(body, rod(p, (0.24, 0, 0.027), (0.34, 0, 0.027), 0.026, 0.003))
    body = np.minimum(body, rod(p, (-0.3, 0, 0.027), (-0.2, 0, 0.027), 0.024, 0.024))

    def paint() -> Array:
        hue = mix((0.80, 0.30, 0.02, 0.2), (0.72, 0.50, 0.30, 0), p[0] > 0.25)
        hue = mix(hue, (0.04, 0.04, 0.05, 0.2), p[0] > 0.305)
        return mix(hue, (0.75, 0.25, 0.26, 0), p[0] < -0.25)

    return body, paint


@stands((0.19, 0.055, 0.38), at=(0.74, -0.32), yaw=35)
def letter(p: Array) -> Look:
    """A lower-case n bent from a thick red rod."""
    arch = np.maximum(norm(norm(p[0] - 0.02, p[2] - 0.2) - 0.12, p[1]) - 0.05, 0.2 - p[2])
    leg = rod(p, (0.14, 0, 0), (0.14, 0, 0.2), 0.05, 0.05)
    stem = rod(p, (-0.1, 0, 0), (-0.1, 0, 0.32), 0.05, 0.05)
    body = np.maximum(np.minimum(arch, join(leg, stem, 0.01)), 0.004 - p[2])
    return body, lambda: column((0.60, 0.075, 0.05, 0.3))


@stands((0.2, 0.2, 0.72), at=(0.1, 0.5), yaw=75, step=0.6)
def spiral(p: Array) -> Look:
    """Copper wire wound into a narrowing coil, with a rod and a yellow ball, on a dark foot."""
    winding, pitch = np.arctan2(p[1], p[0]) / (2 * np.pi), 0.085
    lap = np.maximum(np.round(p[2] / pitch - winding), np.ceil(0.5 - winding))
    height = pitch * (winding + np.minimum(lap, np.floor(6.6 - winding)))
    wire = norm(norm(p[0], p[1]) - 0.175 + 0.24 * height, p[2] - height) - 0.0125
    rest = np.maximum(ellipsoid(p, (0, 0, 0), (0.12, 0.12, 0.035)), -p[2])
    rest = np.minimum(rest, rod(p, (0, 0, 0), (0, 0, 0.66), 0.009, 0.009))
    rest = np.minimum(rest, ellipsoid(p, (0, 0, 0.67), (0.034, 0.034, 0.034)))

    def paint() -> Array:
        hue = mix((0.62, 0.25, 0.12, 0.5), (0.06, 0.05, 0.05, 0.5), p[2] < 0.036)
        return mix(hue, (0.85, 0.5, 0.03, 0.5), p[2] > 0.637)

    return np.minimum(wire, rest), paint
