"""Every kernel against its reference on this machine: the cases, and how they are compared.

`nerfmac selftest` prints the outcome as a table and the test suite asserts it, so a user's machine
is checked by what checks ours. A case runs twice, with kernels and without, and gives named arrays:
results, and the gradient of a fixed random combination of them for every differentiable argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import kernels_disabled, runs_kernel
from nerfmac.ops.composite import composite
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.march import MarchGeometry, march, write_samples
from nerfmac.ops.mlp import MlpShape, mlp_kernel, mlp_reference
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.samples import Samples

Arrays = dict[str, mx.array]

ROUNDOFF = 2.0**-24
"""Of float32."""


@dataclass(frozen=True)
class Case:
    """One comparison; `run` computes named arrays by whatever back end is on."""

    operation: str
    name: str
    run: Callable[[], Arrays]
    terms: int  # roundings that add up in one output, about
    outliers: float = 0.0  # share of entries left out: those where rounding decides a jump

    @property
    def tolerance(self) -> float:
        """Relative error of a whole array, as a vector, that rounding alone explains."""
        return 8 * ROUNDOFF * self.terms

    def __str__(self) -> str:
        return f"{self.operation}-{self.name}"


class Outcome(NamedTuple):
    """How one array of a case came out."""

    array: str
    error: float  # relative to the reference's length; infinite where a result is not finite
    passed: bool


def compare(case: Case) -> list[Outcome]:
    """Run `case` with and without kernels and compare each array."""
    got = case.run()
    mx.eval(got)
    with kernels_disabled():
        want = case.run()
        mx.eval(want)
    outcomes = []
    for name, expected in want.items():
        error = _error(np.array(got[name]), np.array(expected), case.outliers)
        outcomes.append(Outcome(name, error, error <= case.tolerance))
    return outcomes


def _error(got: np.ndarray, want: np.ndarray, outliers: float) -> float:
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if not np.issubdtype(want.dtype, np.floating):
        wrong = np.count_nonzero(got != want)
        return 0.0 if wrong <= outliers * want.size else float("inf")
    if not np.isfinite(got).all():
        return float("inf")
    difference = np.abs(got.astype(np.float64) - want).ravel()
    kept = np.argsort(difference, kind="stable")[: difference.size - int(outliers * want.size)]
    length = np.linalg.norm(want.astype(np.float64).ravel()[kept])
    distance = float(np.linalg.norm(difference[kept]))
    if distance == 0.0:
        return 0.0
    return distance / float(length) if length > 0 else float("inf")


def cases() -> Iterator[Case]:
    """All cases, operation by operation."""
    yield from _hash_encode_cases()
    yield from _spherical_harmonics_cases()
    yield from _mlp_cases()
    yield from _march_cases()
    yield from _composite_cases()
    yield from _occupancy_update_cases()


def _with_gradients(function: Callable[..., list[mx.array]], **arguments: mx.array) -> Arrays:
    """Results of `function`, and for each argument the gradient of a random sum of them."""
    results = function(*arguments.values())
    keys = mx.random.split(mx.random.key(7), len(results))
    weights = [mx.random.normal(r.shape, key=k) for r, k in zip(results, keys, strict=True)]

    def combined(*values: mx.array) -> mx.array:
        outputs = function(*values)
        return mx.sum(mx.stack([mx.sum(o * w) for o, w in zip(outputs, weights, strict=True)]))

    _, gradients = mx.vjp(combined, list(arguments.values()), [mx.array(1.0)])
    named = {f"result {i}": result for i, result in enumerate(results)}
    named |= {f"d {name}": d for name, d in zip(arguments, gradients, strict=True)}
    return named


def _points(count: int, low: float, high: float) -> mx.array:
    points = mx.random.uniform(low, high, (count, 3), key=mx.random.key(count))
    # The border itself, where an index may leave the table.
    corners = mx.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5], [1.0, 0.25, 1.0]])
    return mx.concatenate([corners, points])[:count] if count > 4 else points


def _hash_encode_cases() -> Iterator[Case]:
    grids = {
        "dense": (HashLevels(2, 16, 4, 2.0), 4),
        "base": (HashLevels(8, 19, 16, 2.0), 4),
        "small": (HashLevels(8, 15, 16, 1.81), 4),
        "sixteen": (HashLevels(16, 14, 16, 1.38), 2),
    }
    for name, (levels, features) in grids.items():
        table = mx.random.normal((levels.entries, features), key=mx.random.key(1))
        for count, low, high in ((1, 0.0, 1.0), (3, 0.0, 1.0), (1031, 0.0, 1.0), (517, -0.7, 1.6)):
            positions = _points(count, low, high)

            def run(
                positions: mx.array = positions,
                table: mx.array = table,
                levels: HashLevels = levels,
            ) -> Arrays:
                return _with_gradients(
                    lambda p, t: [hash_encode(p, t, levels)], positions=positions, table=table
                )

            where = "outside" if low < 0 else "inside"
            # At a cell's face the gradient jumps, and so may features do outside the cube. The
            # finest level's place in its cell is known to 2^-24 of its thousands of cells.
            share = 0.02 if count > 100 else 0.0
            terms = 64 if levels.log2_entries < 19 else 512
            yield Case("hash_encode", f"{name}-{where}-{count}", run, terms, share)


def _spherical_harmonics_cases() -> Iterator[Case]:
    for count in (1, 2, 257):
        directions = mx.random.normal((count, 3), key=mx.random.key(count))
        directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)

        def run(directions: mx.array = directions) -> Arrays:
            return _with_gradients(lambda d: [spherical_harmonics(d)], directions=directions)

        yield Case("spherical_harmonics", str(count), run, 16)


def _mlp_cases() -> Iterator[Case]:
    shapes = {
        "density": MlpShape(32, 64, 1, 16),
        "colour": MlpShape(32, 64, 2, 16),
        "tiny": MlpShape(16, 32, 1, 16),
        "deep": MlpShape(48, 16, 3, 32),
    }
    for name, shape in shapes.items():
        weights = 0.3 * mx.random.normal((shape.weights,), key=mx.random.key(2))
        for rows in (1, 31, 33, 1500):
            inputs = mx.random.normal((rows, shape.inputs), key=mx.random.key(rows))

            def run(
                inputs: mx.array = inputs, weights: mx.array = weights, shape: MlpShape = shape
            ) -> Arrays:
                evaluate = mlp_kernel if runs_kernel("mlp") else _mlp_reference_float32
                return _with_gradients(
                    lambda x, w: [evaluate(x, w, shape)], inputs=inputs, weights=weights
                )

            yield Case("mlp", f"{name}-{rows}", run, 256)


def _mlp_reference_float32(inputs: mx.array, weights: mx.array, shape: MlpShape) -> mx.array:
    # A GPU's matrix products may round to ten bits (TF32); those of the CPU do not.
    with mx.stream(mx.cpu):
        return mlp_reference(inputs, weights, shape)


def _rays(count: int, extent: float) -> tuple[mx.array, mx.array, mx.array]:
    """Rays from around towards the unit cube; the first three run along axes."""
    keys = mx.random.split(mx.random.key(count), 3)
    origins = 0.5 + extent * (mx.random.uniform(shape=(count, 3), key=keys[0]) - 0.45) * 2.0
    targets = mx.random.uniform(shape=(count, 3), key=keys[1])
    directions = targets - origins
    directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
    along = mx.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    start = mx.array([[0.3, 0.7, -2.0], [2.0 * extent, 0.4, 0.6], [5.0 * extent, -3.0, 0.2]])
    origins = mx.concatenate([start, origins[3:]])[:count]
    directions = mx.concatenate([along, directions[3:]])[:count]
    return origins, directions, mx.random.uniform(shape=(count,), key=keys[2])


def _march_cases() -> Iterator[Case]:
    geometries = {
        "object": MarchGeometry(1.0, 32, 0.05, 3**0.5 / 256, 0.0),
        "scene": MarchGeometry(4.0, 32, 0.1, 3**0.5 / 256, 1 / 64),
        "odd": MarchGeometry(3.0, 16, 0.0, 3**0.5 / 128, 1 / 256),
    }
    for name, geometry in geometries.items():
        for count, share, slots in ((2, 0.5, 999), (301, 0.2, 9000), (64, 1.0, 9000), (9, 0.0, 64)):
            drawn = mx.random.uniform(shape=(geometry.cells,), key=mx.random.key(3))
            rays = _rays(count, geometry.extent)

            def run(
                rays: tuple[mx.array, mx.array, mx.array] = rays,
                drawn: mx.array = drawn,
                share: float = share,
                geometry: MarchGeometry = geometry,
                slots: int = slots,
            ) -> Arrays:
                with kernels_disabled():  # packing has its own cases
                    bits = pack_bits((drawn < share).astype(mx.float32), mx.array([0.5]))
                samples = march(*rays, bits, geometry, slots)
                count = rays[2].shape[0]
                # The same samples without each ray's first two.
                skip = mx.minimum(samples.ray_start[1:] - samples.ray_start[:-1], 2)
                left = samples.ray_start - mx.concatenate([mx.zeros(1, mx.int32), mx.cumsum(skip)])
                later = write_samples(*rays, bits, geometry, slots, left, skip)
                # Rounding may move a sample over a cell's face, and with it all that follow: so
                # rays' sums are compared, and not slots.
                return {
                    **_sums_by_ray(samples, count, "position", "distance", "width"),
                    **{f"later {k}": v for k, v in _sums_by_ray(later, count, "distance").items()},
                    "wanted": samples.wanted,
                    "fits": samples.fits,
                }

            yield Case("march", f"{name}-{count}-{share}", run, 512, 0.03 if count > 100 else 0.0)


def _sums_by_ray(samples: Samples, rays: int, *names: str) -> Arrays:
    ray = mx.where(samples.width > 0, samples.ray, rays)
    values = {name: getattr(samples, name) for name in names}
    return {
        name: mx.zeros((rays + 1, *each.shape[1:])).at[ray].add(each)[:rays]
        for name, each in values.items()
    }


def _composite_cases() -> Iterator[Case]:
    lengths = {
        "one": [5],
        "empty": [0, 0, 0],
        "mixed": [0, 1, 64, 0, 33, 7, 200, 0],
        "single": [600],
        "many": [i * 7919 % 61 for i in range(517)],
    }
    for name, counts in lengths.items():
        for density_scale in (3.0, 300.0):  # seen through; ending early
            used = sum(counts)
            slots = used + 13  # some slots belong to no ray
            keys = mx.random.split(mx.random.key(slots), 3)
            density = density_scale * mx.random.uniform(shape=(slots,), key=keys[0])
            colour = mx.random.uniform(shape=(slots, 3), key=keys[1])
            widths = 0.02 * mx.random.uniform(0.5, 1.0, (slots,), key=keys[2])
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            first = np.repeat(starts[:-1], counts)
            distances = mx.array(0.02 * (np.arange(slots) - np.pad(first, (0, 13))), mx.float32)

            packed = (distances, widths, mx.array(starts))

            def run(
                density: mx.array = density,
                colour: mx.array = colour,
                packed: tuple[mx.array, mx.array, mx.array] = packed,
            ) -> Arrays:
                return _with_gradients(
                    lambda d, c: list(composite(d, c, *packed)), density=density, colour=colour
                )

            yield Case("composite", f"{name}-{density_scale:g}", run, 256)


def _occupancy_update_cases() -> Iterator[Case]:
    for count in (1, 5, 4000):
        cells = mx.random.randint(0, 1000, (count,), key=mx.random.key(count))
        estimates = mx.random.uniform(shape=(count,), key=mx.random.key(5))

        def run_splat(cells: mx.array = cells, estimates: mx.array = estimates) -> Arrays:
            return {"peaks": splat(cells, estimates, 1024)}

        yield Case("occupancy_update", f"splat-{count}", run_splat, 1)
    for count in (32, 96, 8192):
        values = mx.random.uniform(-0.1, 1.0, (count,), key=mx.random.key(count))

        def run_pack(values: mx.array = values) -> Arrays:
            return {"bits": pack_bits(values, mx.array([0.6]))}

        yield Case("occupancy_update", f"pack-{count}", run_pack, 1)
