"""A smooth curve through keyframes, parametrized by length, its `Timing`, and operations on unit
quaternions.

The distance between two keyframes is sqrt(|moved|^2 / spread^2 + turned^2 + zoomed^2), with angles
in radians and the root mean squared distance of the keyframes from their mean as `spread`. The
curve is centripetal: the parameter increases by the square root of the distance, so that there are
no loops between unequally spaced keyframes. Cubic Bezier curves connect the keyframes with the
tangents of Barry and Goldman (A recursive evaluation algorithm for a class of Catmull-Rom splines,
1988), the mean of the slopes on both sides, weighted by the length of the opposite side. De
Casteljau's algorithm blends positions and fields of view along lines, and unit quaternions along
great arcs (Shoemake: Animating rotation with quaternion curves, 1985).

Quaternions are stacked (n, 4) as (w, x, y, z). q and -q are the same rotation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nerfmac.common import BoolArray, Float64Array


def arc(start: Float64Array, end: Float64Array, fraction: Float64Array) -> Float64Array:
    """Interpolate spherically between quaternions (n, 4), from `start` at fraction 0 to `end` at
    fraction 1."""
    across, along = np.linalg.norm(end - start, axis=-1), np.linalg.norm(end + start, axis=-1)
    angle = 2.0 * np.arctan2(across, along)[..., None]
    # The weight of `start` is sin((1 - fraction) * angle) / sin(angle), and the weight of `end` is
    # sin(fraction * angle) / sin(angle). If the quaternions are nearly equal, the limits 1 -
    # fraction and fraction are used.
    tiny = angle < 1e-6
    whole = np.where(tiny, 1.0, np.sin(angle))
    left = np.where(tiny, 1.0 - fraction, np.sin((1.0 - fraction) * angle) / whole)
    right = np.where(tiny, fraction, np.sin(fraction * angle) / whole)
    return left * start + right * end


def product(one: Float64Array, other: Float64Array) -> Float64Array:
    """Return products (n, 4) of quaternions, which rotate by `other` first and then by `one`."""
    real, axis, other_real, other_axis = one[:, :1], one[:, 1:], other[:, :1], other[:, 1:]
    vector = real * other_axis + other_real * axis + np.cross(axis, other_axis)
    return np.c_[real * other_real - np.sum(axis * other_axis, axis=1, keepdims=True), vector]


def inverse(quaternion: Float64Array) -> Float64Array:
    """Return the quaternions (n, 4) of the inverse rotations."""
    return quaternion * np.array([1.0, -1.0, -1.0, -1.0])


def exponential(vector: Float64Array) -> Float64Array:
    """Return the quaternions (n, 4) of rotation vectors (n, 3). The direction of a rotation vector
    is the axis, and its length is the angle in radians."""
    half = 0.5 * np.linalg.norm(vector, axis=1, keepdims=True)
    return np.c_[np.cos(half), 0.5 * vector * np.sinc(half / np.pi)]


def logarithm(quaternion: Float64Array) -> Float64Array:
    """Return the rotation vectors (n, 3), with angles up to pi, of quaternions."""
    shortest = np.where(quaternion[:, :1] < 0.0, -quaternion, quaternion)
    sine = np.linalg.norm(shortest[:, 1:], axis=1, keepdims=True)
    half = np.arctan2(sine, shortest[:, :1])
    return 2.0 * shortest[:, 1:] / np.sinc(half / np.pi)


def quaternions(rotation: Float64Array) -> Float64Array:
    """Return the quaternions (n, 4), with arbitrary signs, of the rotations nearest to matrices (n,
    3, 3). Horn: Closed-form solution of absolute orientation using unit quaternions (1987)."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation.transpose(1, 2, 0)
    table = [
        [xx + yy + zz, zy - yz, xz - zx, yx - xy],
        [zy - yz, xx - yy - zz, xy + yx, zx + xz],
        [xz - zx, xy + yx, yy - xx - zz, yz + zy],
        [yx - xy, zx + xz, yz + zy, zz - xx - yy],
    ]
    return np.linalg.eigh(np.array(table).transpose(2, 0, 1))[1][:, :, -1]


def matrices(quaternion: Float64Array) -> Float64Array:
    """Return the rotation matrices (n, 3, 3) of unit quaternions (n, 4): I + 2 w [v] + 2 [v]^2."""
    real, (x, y, z) = quaternion[:, :1, None], quaternion[:, 1:].T
    none = np.zeros_like(x)
    cross = np.array([[none, -z, y], [z, none, -x], [-y, x, none]]).transpose(2, 0, 1)
    return np.eye(3) + 2.0 * (real * cross + cross @ cross)


MIN_SPREAD = 1e-3  # Minimum spread in scene units, so that rounding errors do not affect the speed.
SAME = 1e-9  # Keyframes at a distance of at most this value are treated as one keyframe.
SAMPLES = 512  # Line segments for the length of each Bezier curve, accurate to 1 %.


class Curve:
    """Smooth curve of Bezier segments through keyframes. Equal consecutive keyframes count once."""

    def __init__(
        self, positions: Float64Array, rotation: Float64Array, fov: Float64Array, closed: bool
    ) -> None:
        """Create a curve through n keyframes with positions (n, 3), unit quaternions (n, 4) as (w,
        x, y, z), and vertical fields of view (n,) in radians. A closed curve returns to the first
        keyframe."""
        centered = positions - positions.mean(axis=0)
        spread = np.sqrt(np.mean(np.sum(centered**2, axis=1)))
        flat = np.c_[positions, fov]
        self.scale = np.array([*[max(spread, MIN_SPREAD)] * 3, 1.0])
        if closed:
            flat, rotation = np.r_[flat, flat[:1]], np.r_[rotation, rotation[:1]]
        lengths = self._distance(flat, rotation)
        used = lengths > SAME
        knots = np.r_[0, np.cumsum(used)]  # Parameters of the keyframes.
        kept = np.r_[True, used]
        self._bend(flat[kept], rotation[kept], np.sqrt(lengths[used]), closed)
        self.marks = np.linspace(0.0, len(self.flat), len(self.flat) * SAMPLES + 1)
        self.walked = np.r_[0.0, np.cumsum(self._distance(*self._on(self.marks)))]
        self.lengths: Float64Array = self.walked[knots * SAMPLES]
        """Lengths (n,) of the curve up to each keyframe. A closed path has n + 1 lengths, including
        the end of the path."""

    def at(self, length: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return positions (n, 3), quaternions (n, 4), and fields of view (n,) at lengths (n,)."""
        flat, rotation = self._on(np.interp(length, self.walked, self.marks))
        return flat[:, :3], rotation, flat[:, 3]

    def _bend(
        self, flat: Float64Array, rotation: Float64Array, steps: Float64Array, closed: bool
    ) -> None:
        """Set the control points (n, 4, 4) of positions with fields of view, and of quaternions."""
        if not len(steps):
            self.flat, self.rotation = (np.repeat(a[:, None], 4, axis=1) for a in (flat, rotation))
            return
        turned = logarithm(product(inverse(rotation[:-1]), rotation[1:]))
        steps = steps[:, None]
        tangents = _tangents(np.c_[np.diff(flat, axis=0), turned] / steps, steps, closed)
        out, into = tangents[:-1] * steps / 3.0, tangents[1:] * steps / -3.0
        first, last = flat[:-1], flat[1:]
        self.flat = np.stack([first, first + out[:, :4], last + into[:, :4], last], axis=1)
        # q and -q are the same rotation. The sign of the last quaternion selects the shorter
        # rotation.
        first, last = rotation[:-1], product(rotation[:-1], exponential(turned))
        out, into = exponential(out[:, 4:]), exponential(into[:, 4:])
        self.rotation = np.stack([first, product(first, out), product(last, into), last], axis=1)

    def _on(self, marks: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return positions with fields of view (n, 4), and quaternions (n, 4), at `marks` (n,). A
        mark is the index of a segment plus the position on the segment, from 0 to 1."""
        index = np.minimum(marks.astype(int), len(self.flat) - 1)
        fraction = (marks - index)[:, None, None]
        return _casteljau(self.flat[index], fraction, _line), _casteljau(
            self.rotation[index], fraction, arc
        )

    def _distance(self, flat: Float64Array, rotation: Float64Array) -> Float64Array:
        """Return the distances (n - 1,) between consecutive keyframes, as defined above."""
        moved = np.diff(flat, axis=0) / self.scale
        turned = logarithm(product(inverse(rotation[:-1]), rotation[1:]))
        return np.sqrt(np.sum(moved**2, axis=1) + np.sum(turned**2, axis=1))


def _tangents(slopes: Float64Array, steps: Float64Array, closed: bool) -> Float64Array:
    """Return derivatives (n + 1, 7) of position, fov, and rotation at the ends of n curves.
    `slopes` (n, 7) contains the mean slopes of the curves, and `steps` (n, 1) the lengths of their
    parameter intervals. An open path has no curvature at its ends."""
    if closed:
        slopes, steps = np.r_[slopes[-1:], slopes, slopes[:1]], np.r_[steps[-1:], steps, steps[:1]]
    before, after = slopes[:-1], slopes[1:]
    tangents = (before * steps[1:] + after * steps[:-1]) / (steps[:-1] + steps[1:])
    # The slopes are clipped so that fov does not overshoot (Fritsch, Carlson: Monotone piecewise
    # cubic interpolation, 1980).
    limit = 3.0 * np.minimum(np.abs(before), np.abs(after)) * (before * after > 0.0)
    tangents[:, 3] = np.clip(tangents[:, 3], -limit[:, 3], limit[:, 3])
    if not closed:
        inner = tangents if len(tangents) else slopes
        ends = 1.5 * slopes[[0, -1]] - 0.5 * inner[[0, -1]]
        tangents = np.r_[ends[:1], tangents, ends[1:]]
    return tangents


def _casteljau(
    points: Float64Array,
    fraction: Float64Array,
    blend: Callable[[Float64Array, Float64Array, Float64Array], Float64Array],
) -> Float64Array:
    """Return points (n, k) of curves with control points (n, 4, k) at `fraction` (n, 1, 1)."""
    while points.shape[1] > 1:
        points = blend(points[:, :-1], points[:, 1:], fraction)
    return points[:, 0]


def _line(start: Float64Array, end: Float64Array, fraction: Float64Array) -> Float64Array:
    return start + fraction * (end - start)


class Timing:
    """Traveled length as a function of time, from 0 at the start of a path to 1 at its end.

    The function is monotone and cubic, without jumps in speed (Fritsch, Butland: A method for
    constructing local monotone piecewise cubic interpolants, 1984). In segments without a duration,
    the speed is the mean speed of the segments with a duration. A segment with a duration but no
    length is a pause. The camera slows down before a pause and at keyframes with `ease`.
    """

    def __init__(
        self, walked: Float64Array, seconds: Sequence[float | None], ease: Sequence[bool]
    ) -> None:
        """Create the timing of n segments from the traveled length `walked` (n + 1,) at each
        keyframe and at the end of a closed path, the durations in seconds (n), and whether the
        camera stops at each of the n + 1 keyframes."""
        lengths = np.diff(walked)
        is_timed = np.array([time is not None for time in seconds], bool)
        given = np.array([time or 0.0 for time in seconds], np.float64)
        timed = float(lengths[is_timed].sum())
        pace = given.sum() / timed if timed > 0.0 else 1.0  # Seconds per length.
        spent = np.where(is_timed, given, pace * lengths)
        self.seconds = float(spent.sum()) if is_timed.any() else None
        """Duration of the path in seconds, or None if no keyframe has a time."""
        ends = np.r_[0.0, np.cumsum(spent)]
        whole = ends[-1] or 1.0
        self.times: Float64Array = ends / whole
        """Times (n + 1,) of the keyframes, relative to the duration."""
        kept = np.r_[True, np.diff(self.times) > 0.0]
        rests = np.logical_or.reduceat(np.asarray(ease, bool), np.flatnonzero(kept))
        self._knots, self._walked = self.times[kept], walked[kept]
        self._speed = _speeds(self._knots, self._walked, rests)

    def walked(self, time: Float64Array) -> Float64Array:
        """Return the traveled lengths (k,) at `time` (k,) in [0, 1]."""
        if len(self._knots) == 1:
            return np.repeat(self._walked, len(time))
        segment = np.clip(np.searchsorted(self._knots, time, "right") - 1, 0, len(self._knots) - 2)
        span = self._knots[segment + 1] - self._knots[segment]
        part = (time - self._knots[segment]) / span
        rest = 1.0 - part
        out, into = span * self._speed[segment], span * self._speed[segment + 1]
        start, end = self._walked[segment], self._walked[segment + 1]
        # This is a cubic Hermite polynomial, written as a straight line plus a correction.
        bend = part * rest * (rest * (out - (end - start)) - part * (into - (end - start)))
        return start + part * (end - start) + bend


def _speeds(times: Float64Array, walked: Float64Array, rests: BoolArray) -> Float64Array:
    """Return the speed (n,) at each knot, a weighted harmonic mean of the adjacent slopes."""
    if len(times) == 1:
        return np.zeros(1)
    spans = np.diff(times)
    slopes = np.diff(walked) / spans
    before, after = slopes[:-1], slopes[1:]
    first, second = spans[:-1] + 2.0 * spans[1:], 2.0 * spans[:-1] + spans[1:]
    moves = (before > 0.0) & (after > 0.0)
    safe_before, safe_after = np.where(moves, before, 1.0), np.where(moves, after, 1.0)
    mean = (first + second) / (first / safe_before + second / safe_after)
    speed = np.r_[slopes[0], np.where(moves, mean, 0.0), slopes[-1]]
    return np.where(rests, 0.0, speed)
