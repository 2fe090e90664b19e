"""Benchmark of every operation, with its kernel and with its reference, and of rendering an image.

The arrays have the same sizes as in a training step (`StepInputs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.app.measure.ceilings import measure_ceilings
from nerfmac.app.measure.inputs import StepInputs
from nerfmac.app.measure.launches import trained
from nerfmac.app.measure.timing import Timing, measure
from nerfmac.app.run import Run
from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device, kernels_disabled, working_dtype
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import machine
from nerfmac.common.checks import InputError
from nerfmac.config import Config, MarchConfig
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import Rays
from nerfmac.ops.adam import Step, adam_step, most_first
from nerfmac.ops.composite import composite
from nerfmac.ops.draw_pixels import draw_pixels
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.huber import huber
from nerfmac.ops.loss_scale import LossScale, next_loss_scale
from nerfmac.ops.march import march
from nerfmac.ops.networks import networks, networks_density
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.packing import ray_starts
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.thin import thin
from nerfmac.ops.trace import TraceGeometry, trace

STEPS = 1024  # Number of training steps before an image is timed.
IMAGE = {"cpu": 200}  # Side of the image in pixels, by device; elsewhere 800.


def benchmark(
    scene: Scene,
    config: Config,
    *,
    seconds: float = 1.0,
    on_line: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Time every operation, and an image after training on `scene`, for about `seconds` each.

    Returns the measurements as JSON values, with times in milliseconds.
    """
    if why := why_reference():
        raise InputError(f"there are no kernels to time: {why}")
    scene.views("train")  # raises an error for an invalid image before the measurement
    about = machine()
    on_line(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    most = measure_ceilings(seconds)
    heading = f"{'operation':34}{'kernel':>10}{'(quartiles)':>17}{'plain MLX':>10}{'speed-up':>9}"
    on_line(f"{most}\n\n{heading}")
    operations = {}
    for times in measure_operations(config, seconds):
        on_line(str(times))
        operations[times.name] = times.to_json()
    on_line(f"\ntraining on {scene.name} for {STEPS} steps, then rendering an image")
    side, timing = time_image(trained(Run.begin(scene, config), STEPS), seconds)
    rays = side**2 / timing.median * 1e3
    on_line(f"an image of {side}x{side}: {timing}, {rays:.3g} rays/s")
    return {
        **about,
        "preset": config.preset,
        "scene": scene.name,
        "ceilings": most._asdict(),
        "operations": operations,
        "frame": {"side": side, "ms": timing._asdict(), "rays_per_second": rays},
    }


def time_image(run: Run, seconds: float) -> tuple[int, Timing]:
    """Return the side length of a square image in pixels, and its rendering time.

    The camera has the pose and the horizontal field of view of the first training camera.
    """
    side = IMAGE.get(current_device(), 800)
    camera = run.scene.cameras[0]
    angle = 2.0 * math.atan(0.5 * camera.lens.width / camera.lens.fl_x)
    view = Camera(Lens.from_fov(angle, side, side), camera.pose)
    renderer = run.renderer()
    return side, measure(lambda: renderer.pixels(view, (1.0, 1.0, 1.0)), seconds=seconds)


Computation = tuple[str, Callable[[], Any]]  # Name, and function of unevaluated results.


class OperationTimes(NamedTuple):
    """Times of an operation with its kernel and with its reference, in milliseconds."""

    name: str
    kernel: Timing
    reference: Timing

    @property
    def ratio(self) -> float:
        """Speedup of the kernel: the median reference time divided by the median kernel time."""
        return self.reference.median / self.kernel.median

    def __str__(self) -> str:
        median, low, high, _ = self.kernel
        times = (
            f"{median:7.2f} ms {f'({low:.2f} to {high:.2f})':>16}{self.reference.median:7.1f} ms"
        )
        return f"{self.name:34}{times}{self.ratio:8.1f}x"

    def to_json(self) -> dict[str, Any]:
        """Return the times as JSON values."""
        return {
            "kernel_ms": self.kernel._asdict(),
            "reference_ms": self.reference._asdict(),
            "ratio": self.ratio,
        }


def measure_operations(config: Config, seconds: float) -> Iterator[OperationTimes]:
    """Measure each computation with kernels and with references, and yield the times."""
    for name, compute in computations(config):
        kernel = measure(compute, seconds=seconds)
        with kernels_disabled():
            reference = measure(compute, seconds=seconds)
        yield OperationTimes(name, kernel, reference)


def computations(config: Config) -> Iterator[Computation]:
    """Yield all computations, with the sizes of a training step with `config` in the unit cube."""
    inputs = StepInputs(config)
    yield from _sample_computations(inputs)
    yield from _ray_computations(inputs)
    shape, keys = inputs.table.shape, mx.random.split(mx.random.key(14))
    parameters, gradient = (mx.random.uniform(shape=shape, key=key) for key in keys)
    most = most_first(0.9, 0.99)
    step = mx.array(Step(0.9, 0.99, size=1e-3, epsilon=1e-15, l2=1e-6, most=most))
    unscale = mx.array([1e-3])
    yield "loss_scale", lambda: next_loss_scale(LossScale.init(1024.0), mx.array(0.0))
    _, moments = adam_step(parameters, mx.zeros(shape, mx.uint32), gradient, unscale, step)
    mx.eval(parameters, moments, gradient)
    yield "adam", lambda: adam_step(parameters, moments, gradient, unscale, step)


def _with_backward(
    name: str, function: Callable[..., Any], *arguments: mx.array, result: mx.Dtype = mx.float32
) -> Iterator[Computation]:
    """Yield two computations: `function`, and `function` with the gradients of all arguments.
    float16 arrays are converted to `working_dtype()` before the timing."""
    inputs = _in_working_dtype(arguments)
    results = function(*inputs())
    results = results if isinstance(results, tuple) else (results,)
    key = mx.random.key(9)
    cotangents = _in_working_dtype(
        mx.random.normal(array.shape, key=key).astype(result) for array in results
    )
    yield f"{name} forward", lambda: function(*inputs())
    yield f"{name} forward + backward", lambda: mx.vjp(function, inputs(), cotangents())


def _in_working_dtype(arrays: Iterable[mx.array]) -> Callable[[], list[mx.array]]:
    """Return a function that returns `arrays`, with float16 converted to `working_dtype()`."""
    arrays = list(arrays)

    @cache
    def converted(dtype: mx.Dtype) -> list[mx.array]:
        inputs = [array.astype(dtype) if array.dtype == mx.float16 else array for array in arrays]
        mx.eval(inputs)
        return inputs

    return lambda: converted(working_dtype())


def _sample_computations(inputs: StepInputs) -> Iterator[Computation]:
    samples, shape, half = inputs.samples, inputs.shape, inputs.features.astype(mx.float16)
    # Training does not use the gradient of positions.
    encode = lambda table: hash_encode(inputs.positions, table, inputs.grid.levels)  # noqa: E731
    yield from _with_backward("hash_encode", encode, inputs.table, result=mx.float16)
    yield from _with_backward("spherical_harmonics", spherical_harmonics, inputs.marched[1])

    def both_networks(features: mx.array, density: mx.array, color: mx.array) -> Any:
        return networks(features, inputs.basis, samples.ray, samples.used, density, color, shape)

    yield from _with_backward("networks", both_networks, half, *inputs.weights)
    arrays = _in_working_dtype([half, *inputs.weights])
    density_only: Callable[..., Any] = partial(networks_density, shape=shape)
    yield "networks density", lambda: density_only(*arrays())

    def flat(density: mx.array, color: mx.array) -> mx.array:
        pixels = composite(density, color, samples)
        return mx.concatenate([pixels.color.reshape(-1), pixels.opacity, pixels.depth])

    density = 20.0 * mx.random.uniform(shape=(inputs.slots,), key=mx.random.key(11))
    color = mx.random.uniform(shape=(inputs.slots, 3), key=mx.random.key(12))
    yield from _with_backward("composite", flat, density, color)
    colors = mx.random.uniform(shape=(2, inputs.rays, 3), key=mx.random.key(13))
    loss = partial(huber, target=colors[1], delta=0.1)
    yield from _with_backward("huber", loss, colors[0])


def _ray_computations(inputs: StepInputs) -> Iterator[Computation]:
    geometry, rays, slots = inputs.geometry, inputs.rays, inputs.slots
    lens = Lens(400, 400, 550.0, 550.0, 200.0, 200.0)
    cameras = Cameras.stack([Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens)] * 16)
    pixels = mx.random.randint(0, 256, (16 * 400 * 400, 4), key=mx.random.key(9)).astype(mx.uint8)
    drawn = mx.random.uniform(shape=(3, rays), key=mx.random.key(10))
    yield "draw_pixels", lambda: draw_pixels(pixels, cameras, drawn)
    yield "march", lambda: march(*inputs.marched, slots)
    counts = inputs.samples.ray_start[1:] - inputs.samples.ray_start[:-1]
    yield "packing", lambda: ray_starts(counts, slots // 2)
    thinned = inputs.samples, mx.full((slots,), 20.0), mx.full((rays,), 0.5)
    below = MarchConfig().thin_below
    yield "thin", lambda: thin(*thinned, slots // 2, below)._replace(thinning=None)
    values = mx.random.uniform(shape=(geometry.cells,), key=mx.random.key(8))
    cells = mx.random.randint(0, geometry.cells, (slots,), key=mx.random.key(13))
    threshold = mx.array([0.95])
    mx.eval(pixels, drawn, counts, values, cells)
    yield (
        "occupancy_update",
        lambda: (splat(cells, values[:slots], geometry.cells), pack_bits(values, threshold)),
    )
    sizes = TraceGeometry(geometry, inputs.grid.levels, inputs.shape)
    arrays = _in_working_dtype([inputs.table.astype(mx.float16), *inputs.weights])
    origins, directions, _, occupied = inputs.marched
    through = Rays(origins, directions)
    traced: Callable[..., Any] = partial(trace, through, occupied.bits, sizes)
    yield "trace", lambda: traced(*arrays())
