"""Every operation as a training step uses it (`StepInputs`), timed against its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import kernels_disabled, working_dtype
from nerfmac.config import Config
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import Rays
from nerfmac.measure.inputs import StepInputs
from nerfmac.measure.timing import Timing, measure
from nerfmac.ops.adam import Step, adam_step, most_first
from nerfmac.ops.composite import composite
from nerfmac.ops.draw_pixels import draw_pixels
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import march
from nerfmac.ops.networks import networks, networks_density
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.packing import ray_starts
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.trace import TraceGeometry, trace

Named = tuple[str, Callable[[], Any]]
"""A computation's name, and a function that returns unevaluated arrays."""


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


def computations(config: Config) -> Iterator[Named]:
    """Every computation to measure, at the sizes of `config` in the unit cube."""
    inputs = StepInputs(config)
    yield from _of_samples(inputs)
    yield from _of_rays(inputs)
    shape, keys = inputs.table.shape, mx.random.split(mx.random.key(14))
    parameters, gradient = (mx.random.uniform(shape=shape, key=key) for key in keys)
    most = most_first(0.9, 0.99)
    step = mx.array(Step(0.9, 0.99, size=1e-3, epsilon=1e-15, l2=1e-6, most=most))
    unscale = mx.array([1e-3])
    _, moments = adam_step(parameters, mx.zeros(shape, mx.uint32), gradient, unscale, step)
    mx.eval(parameters, moments, gradient)
    yield "adam", lambda: adam_step(parameters, moments, gradient, unscale, step)


def _both(
    name: str, function: Callable[..., Any], *arguments: mx.array, result: mx.Dtype = mx.float32
) -> Iterator[Named]:
    """The function alone, and with the gradient of all arguments.

    Half precision, of `arguments` or of the `result`, stands for `working_dtype()`: it differs
    between a GPU's kernels and their references, and conversions are not to be timed.
    """
    given = _as_computed(arguments)
    results = function(*given())
    results = results if isinstance(results, tuple) else (results,)
    key = mx.random.key(9)
    cotangents = _as_computed(
        mx.random.normal(each.shape, key=key).astype(result) for each in results
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


def _of_samples(inputs: StepInputs) -> Iterator[Named]:
    samples, shape, half = inputs.samples, inputs.shape, inputs.features.astype(mx.float16)
    # Training does not use the gradient of positions.
    encode = lambda table: hash_encode(inputs.positions, table, inputs.grid.levels)  # noqa: E731
    yield from _both("hash_encode", encode, inputs.table, result=mx.float16)
    yield from _both("spherical_harmonics", spherical_harmonics, inputs.marched[1])

    def seen(features: mx.array, density: mx.array, colour: mx.array) -> Any:
        return networks(features, inputs.basis, samples.ray, samples.used, density, colour, shape)

    yield from _both("networks", seen, half, *inputs.weights)
    given = _as_computed([half, *inputs.weights])
    density_of: Callable[..., Any] = partial(networks_density, shape=shape)
    yield "networks density", lambda: density_of(*given())

    def flat(density: mx.array, colour: mx.array) -> mx.array:
        found = composite(density, colour, samples.distance, samples.width, samples.ray_start)
        return mx.concatenate([found.colour.reshape(-1), found.opacity, found.depth])

    density = 20.0 * mx.random.uniform(shape=(inputs.slots,), key=mx.random.key(11))
    colour = mx.random.uniform(shape=(inputs.slots, 3), key=mx.random.key(12))
    yield from _both("composite", flat, density, colour)


def _of_rays(inputs: StepInputs) -> Iterator[Named]:
    geometry, rays, slots = inputs.geometry, inputs.rays, inputs.slots
    lens = Lens(400, 400, 550.0, 550.0, 200.0, 200.0)
    cameras = Cameras.stack([Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens)] * 16)
    pixels = mx.random.randint(0, 256, (16 * 400 * 400, 4), key=mx.random.key(9)).astype(mx.uint8)
    drawn = mx.random.uniform(shape=(3, rays), key=mx.random.key(10))
    yield "draw_pixels", lambda: draw_pixels(pixels, cameras, drawn)
    yield "march", lambda: march(*inputs.marched, slots)
    counts = inputs.samples.ray_start[1:] - inputs.samples.ray_start[:-1]
    yield "packing", lambda: ray_starts(counts, slots // 2)
    values = mx.random.uniform(shape=(geometry.cells,), key=mx.random.key(8))
    cells = mx.random.randint(0, geometry.cells, (slots,), key=mx.random.key(13))
    threshold = mx.array([0.95])
    mx.eval(pixels, drawn, counts, values, cells)
    yield (
        "occupancy_update",
        lambda: (splat(cells, values[:slots], geometry.cells), pack_bits(values, threshold)),
    )
    sizes = TraceGeometry(geometry, inputs.grid.levels, inputs.shape)
    given = _as_computed([inputs.table.astype(mx.float16), *inputs.weights])
    origins, directions, _, occupied = inputs.marched
    through = Rays(origins, directions)
    traced: Callable[..., Any] = partial(trace, through, occupied.bits, sizes)
    yield "trace", lambda: traced(*given())
