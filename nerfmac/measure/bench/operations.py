"""Every operation as a training step uses it, to be timed against its reference.

The inputs have a preset's sizes: as many points as a step has slots, rays of 32 samples. Positions
are uniformly random, which is harder for caches than training, where a ray's samples are near each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import kernels_disabled, working_dtype
from nerfmac.config import Config
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.measure.timing import Timing, measure
from nerfmac.ops.adam import Step, adam_step, most_first
from nerfmac.ops.composite import composite
from nerfmac.ops.draw_pixels import draw_pixels
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import march
from nerfmac.ops.networks import networks, networks_density
from nerfmac.ops.networks_shape import BASIS, NetworksShape
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.packing import ray_starts
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.trace import TraceGeometry, trace
from nerfmac.sampling.occupancy import march_geometry

SAMPLES_PER_RAY = 32


class Measured(NamedTuple):
    """One operation's times, in milliseconds."""

    name: str
    kernel: Timing
    reference: Timing

    @property
    def ratio(self) -> float:
        """How many times faster the kernel is."""
        return self.reference.median / self.kernel.median

    def __str__(self) -> str:
        median, low, high, _ = self.kernel
        times = (
            f"{median:7.2f} ms {f'({low:.2f} to {high:.2f})':>16}{self.reference.median:7.1f} ms"
        )
        return f"{self.name:34}{times}{self.ratio:8.1f}x"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "kernel_ms": self.kernel._asdict(),
            "reference_ms": self.reference._asdict(),
            "ratio": self.ratio,
        }


def measure_operations(config: Config, seconds: float) -> Iterator[Measured]:
    """Time each computation for about `seconds`, by its kernels and then by its references."""
    for name, compute in computations(config):
        kernel = measure(compute, seconds=seconds)
        with kernels_disabled():
            reference = measure(compute, seconds=seconds)
        yield Measured(name, kernel, reference)


def computations(config: Config) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every computation to measure: its name, and a function that returns unevaluated arrays."""
    points = config.train.slots
    rays = points // SAMPLES_PER_RAY
    yield from _encoding(config, points)
    yield from _networks(config, points, rays)
    yield from _rays(config, points, rays)
    yield from _compositing(points, rays)
    yield _optimiser(config)


def _both(
    name: str,
    function: Callable[..., Any],
    *arguments: mx.array,
    result: mx.Dtype = mx.float32,
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The function alone, and with the gradient of all arguments.

    Half precision, of `arguments` or of the `result`, stands for `working_dtype()`: it differs
    between a GPU's kernels and their references, and conversions are not to be timed.
    """
    given = _as_computed(arguments)
    results = function(*given())
    results = results if isinstance(results, tuple) else (results,)
    keys = mx.random.split(mx.random.key(9), len(results))
    cotangents = _as_computed(
        mx.random.normal(each.shape, key=key).astype(result)
        for each, key in zip(results, keys, strict=True)
    )
    yield f"{name} forward", lambda: function(*given())
    yield f"{name} forward + backward", lambda: mx.vjp(function, given(), cotangents())


def _as_computed(arrays: Iterable[mx.array]) -> Callable[[], list[mx.array]]:
    """A function that returns `arrays`, those of half precision in `working_dtype()`."""
    arrays = list(arrays)

    @cache
    def typed(dtype: mx.Dtype) -> list[mx.array]:
        given = [each.astype(dtype) if each.dtype == mx.float16 else each for each in arrays]
        mx.eval(given)
        return given

    return lambda: typed(working_dtype())


def _encoding(config: Config, points: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    grid = HashGrid(config.grid, 1.0)
    positions = mx.random.uniform(shape=(points, 3), key=mx.random.key(1))
    table = grid.init(mx.random.key(2))["table"]
    mx.eval(positions)
    # Training does not use the gradient of positions.
    yield from _both(
        "hash_encode",
        lambda table: hash_encode(positions, table, grid.levels),
        table,
        result=mx.float16,
    )
    directions = positions - 0.5
    directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
    yield from _both("spherical_harmonics", spherical_harmonics, directions)


def _networks(config: Config, points: int, rays: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    shape, weights = _network_weights(config)
    keys = mx.random.split(mx.random.key(3), 2)
    features = mx.random.normal((points, shape.features), key=keys[0]).astype(mx.float16)
    basis = mx.random.normal((rays, BASIS), key=keys[1])
    ray = mx.arange(points, dtype=mx.int32) // SAMPLES_PER_RAY
    used = mx.array([points], mx.int32)
    mx.eval(basis, ray, used)

    def seen(features: mx.array, density: mx.array, colour: mx.array) -> Any:
        return networks(features, basis, ray, used, density, colour, shape)

    yield from _both("networks", seen, features, *weights)
    density = partial(networks_density, shape=shape)
    given = _as_computed([features, *weights])
    yield "networks density", lambda: density(*given())


def _network_weights(config: Config) -> tuple[NetworksShape, list[mx.array]]:
    inputs, widths = config.grid.levels * config.grid.features, config.networks
    shape = NetworksShape(inputs, widths.width, widths.density_layers, widths.colour_layers)
    keys = mx.random.split(mx.random.key(4), 2)
    return shape, [
        0.2 * mx.random.normal((each.weights,), key=key)
        for each, key in zip((shape.density, shape.colour), keys, strict=True)
    ]


def _rays(config: Config, points: int, rays: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    geometry = march_geometry(config, 1.0)
    target = mx.random.uniform(shape=(rays, 3), key=mx.random.key(5))
    origins = 0.5 + 2.0 * mx.random.normal((rays, 3), key=mx.random.key(6))
    directions = target - origins
    directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
    jitter = mx.random.uniform(shape=(rays,), key=mx.random.key(7))
    values = mx.random.uniform(shape=(geometry.cells,), key=mx.random.key(8))
    threshold = mx.array([0.95])
    bits = pack_bits(values, threshold)
    cells = mx.random.randint(0, geometry.cells, (points,), key=mx.random.key(10))
    mx.eval(origins, directions, jitter, bits, values, cells)
    lens = Lens(400, 400, 550.0, 550.0, 200.0, 200.0)
    cameras = Cameras.stack([Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens)] * 16)
    pixels = mx.random.randint(0, 256, (16 * 400 * 400, 4), key=mx.random.key(9)).astype(mx.uint8)
    drawn = mx.random.uniform(shape=(3, rays), key=mx.random.key(11))
    mx.eval(pixels, drawn)
    yield "draw_pixels", lambda: draw_pixels(pixels, cameras, drawn)
    yield "march", lambda: march(origins, directions, jitter, bits, geometry, points)
    counts = mx.random.randint(0, 2 * SAMPLES_PER_RAY, (rays,), key=mx.random.key(15))
    yield "packing", lambda: ray_starts(counts, points // 2)
    yield (
        "occupancy_update",
        lambda: (splat(cells, values[:points], geometry.cells), pack_bits(values, threshold)),
    )
    shape, weights = _network_weights(config)
    levels = HashGrid(config.grid, 1.0).levels
    table = mx.random.normal((levels.entries, config.grid.features), key=mx.random.key(13))
    sizes = TraceGeometry(geometry, levels, shape)
    given = _as_computed([table.astype(mx.float16), *weights])

    def seen() -> Any:
        table, density, colour = given()
        return trace(origins, directions, bits, sizes, table, density, colour)

    yield "trace", seen


def _compositing(points: int, rays: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    density = 20.0 * mx.random.uniform(shape=(points,), key=mx.random.key(11))
    colour = mx.random.uniform(shape=(points, 3), key=mx.random.key(12))
    distances = (mx.arange(points) % SAMPLES_PER_RAY).astype(mx.float32) * 0.01
    widths = mx.full((points,), 0.01)
    ray_start = mx.arange(rays + 1, dtype=mx.int32) * SAMPLES_PER_RAY
    mx.eval(distances, widths, ray_start)

    def flat(density: mx.array, colour: mx.array) -> mx.array:
        seen = composite(density, colour, distances, widths, ray_start)
        return mx.concatenate([seen.colour.reshape(-1), seen.opacity, seen.depth])

    yield from _both("composite", flat, density, colour)


def _optimiser(config: Config) -> tuple[str, Callable[[], Any]]:
    levels = HashGrid(config.grid, 1.0).levels
    shape, keys = (levels.entries, config.grid.features), mx.random.split(mx.random.key(14))
    parameters, gradient = (mx.random.uniform(shape=shape, key=key) for key in keys)
    most = most_first(0.9, 0.99)
    step = mx.array(Step(0.9, 0.99, size=1e-3, epsilon=1e-15, l2=1e-6, unscale=1e-3, most=most))
    _, moments = adam_step(parameters, mx.zeros(shape, mx.uint32), gradient, step)
    mx.eval(parameters, moments, gradient)
    return "adam", lambda: adam_step(parameters, moments, gradient, step)
